<?php

declare(strict_types=1);

namespace Tarry;

/** The server does not know who calls, or he may not do this. */
class Denied extends TarryError
{
}
