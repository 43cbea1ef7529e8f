<?php

declare(strict_types=1);

namespace Tarry;

/** The job or topic does not exist, or the job has finished. */
class NotFound extends TarryError
{
}
