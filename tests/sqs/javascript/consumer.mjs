// sqs-consumer: handles by tens, one message fails at its first attempt, one falls due while it polls, one takes longer than its visibility.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { CreateQueueCommand, SendMessageBatchCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { Consumer } from 'sqs-consumer'

const sqs = new SQSClient({})
const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: process.argv[2], Attributes: { VisibilityTimeout: '4' } }))
const Entries = Array.from({ length: 10 }, (_, at) => ({ Id: `${at}`, MessageBody: ['fails once', 'is slow'][at] ?? `order ${at}` }))
await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'in a second', DelaySeconds: 1 }))

const handled = [], attempts = {}
let finish
const finished = new Promise((resolve) => { finish = resolve })
const consumer = Consumer.create({
  queueUrl: QueueUrl, sqs, batchSize: 10, waitTimeSeconds: 20, visibilityTimeout: 4, heartbeatInterval: 1, terminateVisibilityTimeout: true,
  messageSystemAttributeNames: ['ApproximateReceiveCount'],
  handleMessage: async (message) => {
    attempts[message.Body] = Number(message.Attributes.ApproximateReceiveCount)
    if (message.Body === 'fails once' && attempts[message.Body] === 1) throw new Error('the first attempt')
    if (message.Body === 'is slow') await sleep(4600) // its end comes with no heartbeat: a change of what is just deleted is an error
    handled.push(message.Body)
    return message
  },
})
consumer.on('processing_error', (error) => assert.match(error.message, /the first attempt/))
consumer.on('error', (error) => { throw error })
let deleted = 0
consumer.on('message_processed', () => { if (++deleted === 11) finish() })
consumer.start()
await finished
consumer.stop({ abort: true })
assert.deepEqual(handled.sort(), [...Entries.map((entry) => entry.MessageBody), 'in a second'].sort())
assert.equal(attempts['fails once'], 2)
assert.equal(attempts['is slow'], 1)
console.log(JSON.stringify({ handled: handled.length }))
