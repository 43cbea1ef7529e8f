<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Thrown by the worker inside a handler, at any place in it, once: a cancel of its job is requested. The result of
 * the handler counts: if the exception passes through, the job is cancelled; if the handler returns, the job is done.
 */
final class CancelRequested extends \Error
{
}
