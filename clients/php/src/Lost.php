<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Thrown by the worker inside a handler, at any place in it: the handler no longer holds its job, because the lease was
 * lost or the time to stop has passed. For `finally`; nothing else needs to catch it.
 */
final class Lost extends \Error
{
}
