<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Thrown within a handler by the worker, wherever the handler is, once: somebody asks to cancel its job. What becomes of
 * the handler counts: where it lets this through the job is cancelled, where it returns the job is done.
 */
final class CancelRequested extends \Error
{
}
