<?php

/**
 * A call that fails is made again later: php call_retry.php [SECONDS], 10 by default. The service is here as well: it
 * answers 503 twice, then 200.
 */

declare(strict_types=1);

require __DIR__ . '/../../clients/php/autoload.php'; // of yours: vendor/autoload.php

use Tarry\Client;
use Tarry\Job;
use Tarry\Retry;
use Tarry\Worker;

$after = (float) ($argv[1] ?? 10);

/** In a process of its own, for three calls. */
$service = stream_socket_server('tcp://127.0.0.1:0');
if (pcntl_fork() === 0) {
    foreach (['503 Service Unavailable', '503 Service Unavailable', '200 OK'] as $status) {
        $connection = stream_socket_accept($service, -1);
        while (rtrim((string) fgets($connection)) !== '') {
            continue; // the request's head
        }
        fwrite($connection, "HTTP/1.1 $status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        fclose($connection);
    }
    exit;
}

$call = function (Job $job) use ($after): void {
    file_get_contents($job->json()['url'], context: stream_context_create(['http' => ['ignore_errors' => true]]));
    $status = (int) explode(' ', $http_response_header[0])[1];
    if ($status === 503) {
        echo "call $job->attempt: 503, again later\n";
        throw new Retry($after, 'the service answered 503');
    }
    if ($status !== 200) {
        throw new RuntimeException("the service answered $status"); // tried again by the job's own backoff
    }
    echo "call $job->attempt: 200, done\n";
};

$client = new Client();
$client->push('calls', ['url' => 'http://' . stream_socket_get_name($service, false) . '/']);
$worker = new Worker($client, 'calls', $call, onDone: function (Job $job, string $outcome) use (&$worker): void {
    if ($outcome === 'ack') {
        $worker->stop(); // your own worker runs until SIGTERM
    }
});
$worker->run();
