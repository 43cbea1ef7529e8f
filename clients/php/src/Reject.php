<?php

declare(strict_types=1);

namespace Tarry;

/**
 * A handler throws it if no further attempt can help: the job is dead immediately. `result` is sent to those that wait for
 * the job.
 */
final class Reject extends \RuntimeException
{
    public function __construct(public readonly string $error = '', public readonly mixed $result = null)
    {
        parent::__construct($error);
    }
}
