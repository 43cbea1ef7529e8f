<?php

declare(strict_types=1);

namespace Tarry;

/**
 * @internal
 */
final readonly class Request
{
    /**
     * @param list<array{string, string}> $query
     * @param array<string, string> $headers
     * @param float|null $retryFor seconds; else those of the client
     */
    public function __construct(
        public string $method,
        public string $path,
        public array $query = [],
        public ?string $body = null,
        public ?float $timeout = null,
        public ?string $contentType = null,
        public array $headers = [],
        public ?float $retryFor = null,
    ) {
    }
}
