<?php

/**
 * A report is sent when all rows of an import have been loaded:
 * php import_report.php [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default.
 */

declare(strict_types=1);

require __DIR__ . '/../../clients/php/autoload.php'; // of yours: vendor/autoload.php

use Tarry\Client;
use Tarry\Job;
use Tarry\Worker;

$delay = (float) ($argv[1] ?? 0);
$rows = (int) ($argv[2] ?? 20_000);
$client = new Client();

$load = function (Job $job): void {
    $job->json()['row']; // your own handler writes it to a database
};

$report = function (Job $job): void {
    echo "report: {$job->meta['tarry-batch']}\n";
};

$client->push('reports', '', id: 'import-7', waits: true, delay: $delay);
$item = fn (int $row) => ['topic' => 'rows', 'body' => ['row' => $row], 'batch' => ['reports', 'import-7']];
$client->pushMany(array_map($item, range(1, $rows)));
$client->closeBatch('reports', 'import-7');
echo "$rows rows pushed\n";
$worker = new Worker($client, ['rows' => $load, 'reports' => $report], onDone: function (Job $job) use (&$worker): void {
    if ($job->topic === 'reports') {
        $worker->stop(); // your own worker runs until SIGTERM
    }
});
$worker->run();
