<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Thrown within a handler by the worker, wherever the handler is: its job is not its own any more, since the lease was
 * lost or the time to stop is over. For `finally`; nothing else needs to catch it.
 */
final class Lost extends \Error
{
}
