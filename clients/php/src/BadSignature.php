<?php

declare(strict_types=1);

namespace Tarry;

/** The callback was not signed with one of the secrets, or not just now. */
class BadSignature extends \RuntimeException
{
}
