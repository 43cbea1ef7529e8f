<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\CancelRequested;
use Tarry\Child;
use Tarry\Lost;
use Tarry\Transport;

final class ChildTest extends TestCase
{
    /** @return list<mixed> one value, or an empty list if the child has ended */
    private static function receive(Child $child): array
    {
        do {
            $found = $child->receive();
        } while ($found === [] && !$child->isGone);
        return $found;
    }

    private static function end(Child $child): void
    {
        $child->close();
        self::assertTrue($child->reap(waits: true));
    }

    public function testOneChildWorksAgainAndAgainOnValuesOfAnySize(): void
    {
        $child = Child::start(static fn (mixed $value): mixed => [getmypid(), $value], true);
        foreach (['', ['a' => 1.5], str_repeat("\0\xff", 1 << 20)] as $value) {
            self::assertTrue($child->send($value));
            self::assertSame([[$child->pid, $value]], self::receive($child));
        }
        self::end($child);
    }

    public function testAHandlerThatExitsIsNoticed(): void
    {
        $child = Child::start(static fn (): never => exit(0), true);
        $child->send(1);
        self::assertSame([['nack', ['error' => 'the handler called exit'], true]], self::receive($child));
        self::assertSame([], self::receive($child));
        self::assertTrue($child->isGone);
        self::end($child);
    }

    public function testAnInterruptIsThrownWithinTheHandler(): void
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0) ?: self::fail('no sockets');
        $child = Child::start(static function () use ($its): void {
            try {
                fwrite($its, "begun\n");
                sleep(20);
            } catch (Lost $lost) {
                fwrite($its, "lost\n");
                throw $lost;
            } finally {
                fwrite($its, "over\n");
            }
        }, true);
        $child->send(1);
        self::assertSame("begun\n", fgets($mine));
        $child->interrupt(INF);
        self::assertSame(["lost\n", "over\n"], [fgets($mine), fgets($mine)]);
        self::assertSame([], self::receive($child));
        self::end($child);
    }

    public function testARequestToCancelIsThrownOnceAndTheAnswerCounts(): void
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0) ?: self::fail('no sockets');
        $child = Child::start(static function (mixed $value) use ($its): mixed {
            try {
                fwrite($its, "begun\n");
                usleep($value === 'long' ? 20000000 : 1000);
            } catch (CancelRequested) {
                return 'done all the same';
            }
            return $value;
        }, true);
        $child->send('long');
        self::assertSame("begun\n", fgets($mine));
        $child->requestCancel();
        self::assertSame(['done all the same'], self::receive($child));
        $child->requestCancel(); // too late: it disturbs no other
        $child->send('short');
        self::assertSame(['short'], self::receive($child));
        self::end($child);
    }

    public function testASignalToAllProcessesDisturbsNoHandler(): void
    {
        $child = Child::start(static function (mixed $value): mixed {
            for ($until = Transport::now() + 0.3; Transport::now() < $until;) {
                usleep(10000);
            }
            return $value;
        }, true);
        $child->send('work');
        usleep(100000);
        posix_kill($child->pid, SIGTERM);
        posix_kill($child->pid, SIGINT);
        self::assertSame(['work'], self::receive($child));
        posix_kill($child->pid, SIGTERM);
        usleep(50000);
        $child->send('more');
        self::assertSame(['more'], self::receive($child));
        self::end($child);
    }

    public function testChildrenEndWithTheirParentThoughOthersWereForkedLater(): void
    {
        $first = Child::start(static fn (mixed $value): mixed => $value, true);
        $second = Child::start(static fn (mixed $value): mixed => $value, true);
        self::end($first);
        self::end($second);
    }
}
