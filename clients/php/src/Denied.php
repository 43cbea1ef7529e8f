<?php

declare(strict_types=1);

namespace Tarry;

/** The token is unknown or lacks the permission. */
class Denied extends TarryError
{
}
