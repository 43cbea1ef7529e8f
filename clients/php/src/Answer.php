<?php

declare(strict_types=1);

namespace Tarry;

/**
 * The answer to a request. Status 0: no answer came, and `body` has the reason.
 *
 * @internal
 */
final readonly class Answer
{
    public function __construct(
        public int $status,
        public string $body,
        public ?float $retryAfter = null,
    ) {
    }

    /**
     * Returns the content of an answer to a call that the server carried out.
     *
     * @return array<mixed>
     * @throws TarryError for any other
     */
    public function json(): array
    {
        if ($this->status === 0) {
            throw new Unavailable("no answer: $this->body", code: 'no_answer');
        }
        $found = json_decode($this->body, true);
        $found = is_array($found) ? $found : [];
        if ($this->status >= 300) {
            throw TarryError::of($this->status, $found, $this->retryAfter);
        }
        return $found;
    }

    /** Is the same request to be made again? */
    public function asksForAnother(): bool
    {
        return in_array($this->status, [0, 429, 502, 503, 504], true);
    }

    /** May the server have carried out a request that was answered so? */
    public function leavesOpen(): bool
    {
        return in_array($this->status, [0, 502, 504], true);
    }
}
