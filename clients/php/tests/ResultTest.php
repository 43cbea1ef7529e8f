<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\Client;
use Tarry\Job;
use Tarry\Worker;

final class ResultTest extends TestCase
{
    public function testAResultBelongsToOneJob(): void
    {
        $client = new Client('http://127.0.0.1:9', retryFor: 0);
        foreach ([[['a', 'b'], 'x'], [[], 'x'], [new Job('t', '1'), new Job('t', '2')]] as [$jobs, $result]) {
            try {
                $client->ack($jobs, $result);
                self::fail('it was sent');
            } catch (\InvalidArgumentException $fault) {
                self::assertStringContainsString('a result belongs to one job', $fault->getMessage());
            }
        }
    }

    /**
     * @param array<string, mixed> $members
     * @dataProvider results
     */
    public function testAResultIsBytesHoweverTheAnswerHasIt(array $members, ?string $wanted): void
    {
        $end = ['outcome' => 'acked', 'duration_ms' => 1500, 'finished_at' => '2026-11-20T09:00:00.000Z'];
        $job = Job::of(['topic' => 't', 'id' => '1', 'state' => 'finished'] + $end + $members);
        self::assertSame([$wanted, (string) $wanted, 1.5], [$job->result, $job->resultText(), $job->duration]);
        self::assertSame(1795165200, $job->finishedAt?->getTimestamp());
    }

    /** @return array<array{array<string, mixed>, string|null}> */
    public static function results(): array
    {
        return [
            [[], null], [['result' => ['a' => 'é'], 'result_type' => 'application/json'], '{"a":"é"}'],
            [['result' => new \stdClass(), 'result_type' => 'application/json'], '{}'],
            [['result' => 'é', 'result_type' => 'text/plain'], 'é'], [['result' => 'x', 'result_type' => 'application/json'], '"x"'],
            [['result_base64' => 'eA=='], 'x'],
        ];
    }

    public function testAWorkerHasOneHandlerOrOneForEachTopic(): void
    {
        $client = new Client('http://127.0.0.1:9');
        new Worker($client, ['a' => 'strlen', 'b' => static fn (): int => 1, '7' => strlen(...)]);
        new Worker($client, ['a', 'strlen'], 'strlen');
        foreach ([['a', null], [['a' => strlen(...)], strlen(...)], [['a', strlen(...)], strlen(...)]] as [$topics, $handler]) {
            try {
                new Worker($client, $topics, $handler);
                self::fail('it was accepted');
            } catch (\InvalidArgumentException $fault) {
                self::assertStringContainsString('give topics and a handler', $fault->getMessage());
            }
        }
    }

    public function testAKindOfCallThatFailsIsLoggedOnceInTenSecondsAndReportedEachTime(): void
    {
        $before = ini_set('error_log', $file = (string) tempnam(sys_get_temp_dir(), 'log'));
        $seen = [];
        $error = static function (\Throwable $fault, string $what) use (&$seen): void {
            $seen[] = $what;
        };
        foreach ([true, false] as $log) {
            $worker = new Worker(new Client('http://127.0.0.1:9'), 't', strlen(...), onError: $error, log: $log);
            $report = (new \ReflectionMethod($worker, 'reportError'))->getClosure($worker);
            foreach (['take', 'take', 'extend'] as $what) {
                $report(new \RuntimeException('no route'), $what);
            }
        }
        $lines = (string) file_get_contents($file);
        unlink($file);
        ini_set('error_log', (string) $before);
        self::assertSame(['take', 'take', 'extend', 'take', 'take', 'extend'], $seen);
        self::assertSame([1, 1], [substr_count($lines, 'take failed: no route'), substr_count($lines, 'extend failed: no route')]);
    }

    public function testMetaInAHeaderCannotAddAnotherHeader(): void
    {
        $encode = (new \ReflectionMethod(\Tarry\Transport::class, 'encode'));
        $transport = new \Tarry\Transport('http://127.0.0.1:9', null, 1, 0);
        foreach ([['a' => "x\r\nEvil: 1"], ["a\r\nEvil" => 'x'], ['a b' => 'x']] as $headers) {
            try {
                $encode->invoke($transport, new \Tarry\Request('PUT', '/', headers: $headers));
                self::fail('it was sent');
            } catch (\InvalidArgumentException $fault) {
                self::assertStringContainsString('bad meta', $fault->getMessage());
            }
        }
    }

    public function testAPushThatWaitsNeedsAnIdIfItHasAOnce(): void
    {
        $this->expectExceptionMessage('needs an id');
        (new Client('http://127.0.0.1:9', retryFor: 0))->pushAndWait('t', 'x', once: 'order-1');
    }

    public function testOnlyAJobOfAWorkerReportsItsProgress(): void
    {
        $this->expectException(\LogicException::class);
        (new Job('t', '1'))->reportProgress('half');
    }
}
