<?php

/**
 * An order is charged, then shipped, then the customer gets a mail:
 * php checkout.php [SECONDS], the mail 0 seconds after the shipment by default.
 */

declare(strict_types=1);

require __DIR__ . '/../../clients/php/autoload.php'; // of yours: vendor/autoload.php

use Tarry\Client;
use Tarry\Job;
use Tarry\Worker;

$delay = (float) ($argv[1] ?? 0);
$client = new Client();

$step = function (Job $job): void {
    echo "{$job->topic} {$job->id}\n";
};

$charge = ['topic' => 'charge', 'id' => '1001'];
$ship = ['topic' => 'ship', 'id' => '1001', 'members' => [$charge]];
$client->pushBatch(['topic' => 'mail', 'id' => '1001', 'delay' => $delay], [$ship]);
echo "order 1001 placed\n";
$stop = function (Job $job) use (&$worker): void {
    if ($job->topic === 'mail') {
        $worker->stop(); // your own worker runs until SIGTERM
    }
};
$worker = new Worker($client, ['charge' => $step, 'ship' => $step, 'mail' => $step], onDone: $stop);
$worker->run();
