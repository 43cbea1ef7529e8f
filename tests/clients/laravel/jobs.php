<?php

/** The jobs of the application: each writes a line to the file TRY_LINES. */

declare(strict_types=1);

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;

class Note implements ShouldQueue
{
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public function __construct(public string $name)
    {
    }

    public function handle(): void
    {
        $this->say("attempt {$this->attempts()}");
    }

    protected function say(string $what): void
    {
        file_put_contents((string) getenv('TRY_LINES'), "$this->name: $what\n", FILE_APPEND | LOCK_EX);
    }
}

/** Releases itself once. */
class Again extends Note
{
    public int $tries = 3;

    public function __construct(string $name, public int $seconds)
    {
        parent::__construct($name);
    }

    public function handle(): void
    {
        parent::handle();
        if ($this->attempts() === 1) {
            $this->release($this->seconds);
        }
    }
}

/** Fails permanently after so many tries. */
class Fails extends Note
{
    public int $backoff = 0;

    public function __construct(string $name, public int $tries)
    {
        parent::__construct($name);
    }

    public function handle(): void
    {
        parent::handle();
        throw new RuntimeException('the bank is down');
    }

    public function failed(Throwable $error): void
    {
        $this->say("failed, {$error->getMessage()}");
    }
}
