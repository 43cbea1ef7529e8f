<?php

declare(strict_types=1);

namespace Tarry;

/** No answer for as long as was tried: what became of the call is not known. */
class Unavailable extends TarryError
{
}
