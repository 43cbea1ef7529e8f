<?php

declare(strict_types=1);

namespace Tarry;

/**
 * A job from take to answer.
 *
 * @internal
 */
final class Held
{
    public readonly float $takenAt;
    public float $livesUntil;
    public float $nextBeat;
    /** Its answer: ack, nack or return; '' until it is known. */
    public string $verb = '';
    /** @var array<string, mixed> */
    public array $options = [];
    /** May the server have had the answer already? */
    public bool $wasTried = false;
    /** Has the handler been notified of the requested cancel? */
    public bool $isUnwanted = false;
    /** Is it sent by itself, since its result may be too big? */
    public bool $isAlone = false;
    /** The process that works on it. */
    public ?Child $child = null;

    public function __construct(public readonly Job $job, float $now, float $lease, int $beats)
    {
        $this->takenAt = $now;
        $this->livesUntil = $now + $lease;
        $this->nextBeat = $now + $lease / $beats;
    }
}
