<?php

declare(strict_types=1);

namespace Tarry;

/** The call is wrong, and would be wrong again. */
class Refused extends TarryError
{
}
