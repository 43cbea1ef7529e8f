<?php

declare(strict_types=1);

namespace Tarry;

/**
 * @internal
 */
final readonly class Request
{
    /** @param list<array{string, string}> $query */
    public function __construct(
        public string $method,
        public string $path,
        public array $query = [],
        public ?string $body = null,
        public ?float $timeout = null,
        public ?string $contentType = null,
    ) {
    }
}
