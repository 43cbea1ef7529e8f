<?php

declare(strict_types=1);

namespace Tarry;

/** A handler throws it if no further attempt can help: the job is dead immediately. */
final class Reject extends \RuntimeException
{
    public function __construct(public readonly string $error = '')
    {
        parent::__construct($error);
    }
}
