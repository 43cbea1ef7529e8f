<?php

declare(strict_types=1);

namespace Tarry;

/** There is no such job or topic, or the job has finished. */
class NotFound extends TarryError
{
}
