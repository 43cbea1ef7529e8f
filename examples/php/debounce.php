<?php

/**
 * A document that is saved again and again is indexed once, when it has been quiet for a while:
 * php debounce.php [SECONDS], 5 by default.
 */

declare(strict_types=1);

require __DIR__ . '/../../clients/php/autoload.php'; // of yours: vendor/autoload.php

use Tarry\Client;
use Tarry\Job;
use Tarry\Worker;

$delay = (float) ($argv[1] ?? 5);
$client = new Client();

/** The job of the save before, if it still waits, is replaced: its body, and when it is due. */
$save = function (int $version) use ($client, $delay): void {
    $client->push('reindex', ['version' => $version], id: 'doc-7', delay: $delay, onConflict: 'replace');
    echo "saved version $version\n";
};

$index = function (Job $job): void {
    echo "indexing version {$job->json()['version']}\n";
};

array_map($save, [1, 2, 3]);
$worker = new Worker($client, 'reindex', $index, onDone: function () use (&$worker): void {
    $worker->stop(); // your own worker runs until SIGTERM
});
$worker->run();
