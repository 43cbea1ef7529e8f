<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Stores data of more than `above` bytes in the store. The server gets its name. With `delete`, a worker deletes the data of
 * a body after the ack of its job.
 */
final readonly class ClaimCheck
{
    public function __construct(public Store $store, public int $above = 64 << 10, public bool $delete = true)
    {
    }
}
