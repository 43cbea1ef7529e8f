<?php

declare(strict_types=1);

namespace Tarry;

/** The job is in a state in which this cannot be done: see `state`. */
class Conflict extends TarryError
{
}
