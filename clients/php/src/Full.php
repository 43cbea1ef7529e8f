<?php

declare(strict_types=1);

namespace Tarry;

/** The topic, the caller, the disk or the memory has no room for another job. */
class Full extends TarryError
{
}
