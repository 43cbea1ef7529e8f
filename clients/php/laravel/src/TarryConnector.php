<?php

declare(strict_types=1);

namespace Tarry\Laravel;

use Illuminate\Queue\Connectors\ConnectorInterface;
use Tarry\Client;

final class TarryConnector implements ConnectorInterface
{
    /** @param array<string, mixed> $config a connection of config/queue.php; only `driver` must be there */
    public function connect(array $config): TarryQueue
    {
        $codec = $config['codec'] ?? null; // a Codec, or a callable that returns one, which a cached configuration can hold
        $client = new Client(
            $config['url'] ?? null,
            $config['token'] ?? null,
            timeout: (float) ($config['timeout'] ?? 10),
            retryFor: (float) ($config['retry_for'] ?? 30),
            context: $config['context'] ?? [],
            codec: is_callable($codec) ? $codec() : $codec,
        );
        return new TarryQueue(
            $client,
            $config['queue'] ?? 'default',
            (int) ($config['retry_after'] ?? 90),
            (int) ($config['block_for'] ?? 5),
            (bool) ($config['after_commit'] ?? false),
        );
    }
}
