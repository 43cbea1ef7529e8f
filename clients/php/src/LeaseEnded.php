<?php

declare(strict_types=1);

namespace Tarry;

/** The lease is no longer the job's: it has ended, or was answered. */
class LeaseEnded extends TarryError
{
}
