<?php

declare(strict_types=1);

namespace Tarry;

/** The lease is not the job's any more: it is over, or was answered. */
class LeaseEnded extends TarryError
{
}
