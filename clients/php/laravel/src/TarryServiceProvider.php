<?php

declare(strict_types=1);

namespace Tarry\Laravel;

use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Makes `'driver' => 'tarry'` known in config/queue.php. Laravel finds it by itself. */
final class TarryServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->addConnector('tarry', static fn (): TarryConnector => new TarryConnector());
        });
    }
}
