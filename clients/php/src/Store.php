<?php

declare(strict_types=1);

namespace Tarry;

/** Stores bodies in place of the server. A name is 32 hexadecimal digits. */
interface Store
{
    public function put(string $name, string $data): void;

    /** Returns null if the store does not have it. */
    public function get(string $name): ?string;

    /** Does nothing if the store does not have it. */
    public function delete(string $name): void;
}
