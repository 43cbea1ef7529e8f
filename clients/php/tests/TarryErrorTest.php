<?php

declare(strict_types=1);

namespace Tarry\Tests;

use PHPUnit\Framework\TestCase;
use Tarry\Answer;
use Tarry\Client;
use Tarry\Conflict;
use Tarry\Denied;
use Tarry\Full;
use Tarry\Job;
use Tarry\LeaseEnded;
use Tarry\NotFound;
use Tarry\Refused;
use Tarry\TarryError;
use Tarry\Unavailable;

final class TarryErrorTest extends TestCase
{
    /** @dataProvider kinds */
    public function testEachRefusalHasItsKind(int $status, string $code, string $kind): void
    {
        $found = TarryError::of($status, ['code' => $code, 'detail' => 'why', 'state' => 'leased', 'limit' => 5], 2.0);
        self::assertSame($kind, $found::class);
        self::assertSame([$code, $code, $status, 'why'], [$found->code, $found->getCode(), $found->status, $found->detail]);
        self::assertSame(['leased', 5, 2.0], [$found->state, $found->limit, $found->retryAfter]);
    }

    /** @return array<array{int, string, class-string}> */
    public static function kinds(): array
    {
        return [
            [404, 'not_found', NotFound::class], [409, 'conflict', Conflict::class], [409, 'leased', Conflict::class],
            [410, 'lease_ended', LeaseEnded::class], [401, 'unauthorized', Denied::class], [403, 'forbidden', Denied::class],
            [507, 'topic_full', Full::class], [507, 'no_space', Full::class], [400, 'bad_topic', Refused::class],
            [413, '', Refused::class], [429, '', Unavailable::class], [503, '', Unavailable::class],
            [500, '', TarryError::class], [0, 'bad_topic', Refused::class],
            [0, 'no_batch', NotFound::class], [0, 'batch_closed', Conflict::class], [0, 'waits', Conflict::class],
        ];
    }

    public function testWhatIsMadeAgainAndWhatIsLeftOpen(): void
    {
        $again = array_filter([0, 200, 400, 404, 429, 500, 502, 503, 504, 507], static fn ($n) => (new Answer($n, ''))->asksForAnother());
        self::assertSame([0, 429, 502, 503, 504], array_values($again));
        $open = array_filter([0, 200, 429, 502, 503, 504], static fn ($n) => (new Answer($n, ''))->leavesOpen());
        self::assertSame([0, 502, 504], array_values($open));
    }

    /**
     * @testWith [302]
     *           [304]
     *           [400]
     *           [500]
     */
    public function testOnlyAnAnswerBelow300IsASuccess(int $status): void
    {
        self::assertSame([], (new Answer(200, '{}'))->json());
        $this->expectExceptionMessage("the server answered $status");
        (new Answer($status, '{}'))->json();
    }

    public function testALeaseThatEndedCountsWhereAnEarlierTryMayHaveDoneIt(): void
    {
        $ended = ['result' => 'lease_ended'];
        self::assertNull(Client::answered('ack', $ended, true));
        self::assertInstanceOf(LeaseEnded::class, Client::answered('ack', $ended, false));
        self::assertInstanceOf(LeaseEnded::class, Client::answered('extend', $ended, true));
    }

    public function testAJobIsReadAsItCame(): void
    {
        $job = Job::of([
            'topic' => 't', 'id' => '1', 'body_base64' => 'eyJhIjoxfQ==', 'due_at' => '2026-01-01T00:00:00.123Z',
            'meta' => ['traceparent' => 'x'],
        ]);
        self::assertSame(['a' => 1], $job->json());
        self::assertSame('x', $job->traceparent());
        self::assertSame('1767225600.123', $job->dueAt?->format('U.v'));
    }
}
