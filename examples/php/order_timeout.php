<?php

/** An order that is not paid in time is closed: php order_timeout.php [SECONDS], 1800 by default. */

declare(strict_types=1);

require __DIR__ . '/../../clients/php/autoload.php'; // of yours: vendor/autoload.php

use Tarry\Client;
use Tarry\Job;
use Tarry\Worker;

$delay = (float) ($argv[1] ?? 1800);
$client = new Client();

/** The job has the order's own number: the order number is enough to cancel it. */
$place = function (string $order) use ($client, $delay): void {
    $client->push('orders', ['order' => $order], id: $order, delay: $delay);
    echo "order $order placed\n";
};

$pay = function (string $order) use ($client): void {
    if ($client->cancel('orders', $order)) {
        echo "order $order paid, nothing to close\n";
    }
};

/** Runs in a process of its own. */
$close = function (Job $job): void {
    echo "order {$job->json()['order']} closed: not paid in time\n";
};

$place('1001');
$place('1002');
$pay('1001');
$worker = new Worker($client, 'orders', $close, onDone: function () use (&$worker): void {
    $worker->stop(); // your own worker runs until SIGTERM
});
$worker->run();
