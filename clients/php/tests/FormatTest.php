<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\Format;

final class FormatTest extends TestCase
{
    public function testIdsAreUlidsAndSortByTime(): void
    {
        $first = Format::newId();
        usleep(2000);
        $second = Format::newId();
        self::assertMatchesRegularExpression('/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/D', $first);
        self::assertLessThan(0, strcmp($first, $second));
        self::assertCount(1000, array_unique(array_map(static fn (): string => Format::newId(), range(1, 1000))));
    }

    /** @dataProvider durations */
    public function testDurationsAreRoundedUp(int|float|\DateInterval $duration, string $wanted): void
    {
        self::assertSame($wanted, Format::milliseconds($duration));
    }

    /** @return array<array{int|float|\DateInterval, string}> */
    public static function durations(): array
    {
        $week = new \DateInterval('P1W');
        $half = new \DateInterval('PT0S');
        $half->f = 0.5;
        return [
            [0, '0ms'], [1800, '1800000ms'], [0.0001, '1ms'], [1.1, '1100ms'], [0.3, '300ms'], [0.0015, '2ms'], [1e9, '1000000000000ms'],
            [new \DateInterval('PT30M'), '1800000ms'], [$week, '604800000ms'], [$half, '500ms'],
        ];
    }

    public function testMomentsAreMillisecondsSince1970(): void
    {
        self::assertSame('1700000000000', Format::moment(1700000000));
        self::assertSame('1700000000001', Format::moment(1700000000.0005));
        self::assertSame('1767225600000', Format::moment(new \DateTimeImmutable('2026-01-01T01:00:00+01:00')));
        self::assertSame('1767225600124', Format::moment(new \DateTimeImmutable('2026-01-01T00:00:00.123456Z')));
    }

    /** @dataProvider bodies */
    public function testBodiesHaveTheirType(mixed $body, ?string $given, string $bytes, string $type): void
    {
        self::assertSame([$bytes, $type], Format::body($body, $given));
    }

    /** @return array<array{mixed, ?string, string, string}> */
    public static function bodies(): array
    {
        return [
            ['Grüße 🎉', null, 'Grüße 🎉', 'text/plain; charset=utf-8'],
            ["\xff\xfe\0", null, "\xff\xfe\0", 'application/octet-stream'],
            ['{"a" : 1.0 }', 'application/json', '{"a" : 1.0 }', 'application/json'],
            [['a' => [1, 2.0, null, 'é/']], null, '{"a":[1,2.0,null,"é/"]}', 'application/json'],
            [null, null, 'null', 'application/json'],
        ];
    }

    public function testErrorsAreOneShortLine(): void
    {
        self::assertSame('a b c', Format::line("a\nb\tc"));
        self::assertSame(str_repeat('é', 100), Format::line('' . str_repeat('é', 150)));
        self::assertSame('x' . str_repeat('é', 99), Format::line('x' . str_repeat('é', 150)));
        self::assertSame('a<b>&"\'&amp;', Format::line('a<b>&"\'&amp;'));
        self::assertSame("a\u{FFFD}b", Format::line("a\xffb"));
    }

    public function testAConsumerIsHostAndProcessIn64Characters(): void
    {
        self::assertSame('shop-1:77', Format::consumer('shop-1', 77));
        self::assertSame('shop:77', Format::consumer("sh op\né", 77));
        self::assertSame(str_repeat('h', 61) . ':77', Format::consumer(str_repeat('h', 80), 77));
        self::assertSame(':77', Format::consumer('', 77));
    }
}
