<?php

declare(strict_types=1);

namespace Tarry;

/** A body or a result cannot be encoded or decoded. The detail names the key, the step or the limit. */
final class CodecError extends TarryError
{
    /** @internal */
    public static function because(string $detail): self
    {
        return new self($detail, code: 'codec');
    }
}
