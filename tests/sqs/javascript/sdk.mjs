// A message's life through the AWS SDK for JavaScript v3; tests/e2e/support/sqs_clients.py checks its output and the server.
import assert from 'node:assert/strict'
import {
  ChangeMessageVisibilityBatchCommand, ChangeMessageVisibilityCommand, CreateQueueCommand, DeleteMessageBatchCommand, DeleteMessageCommand,
  GetQueueAttributesCommand, GetQueueUrlCommand, QueueDoesNotExist, ReceiveMessageCommand, SendMessageBatchCommand, SendMessageCommand, SQSClient,
} from '@aws-sdk/client-sqs'

const name = process.argv[2]
const sqs = new SQSClient({})

const makeQueue = async (QueueName, Attributes) => (await sqs.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl
const dead = await makeQueue(`${name}-dead`)
const { QueueArn } = (await sqs.send(new GetQueueAttributesCommand({ QueueUrl: dead, AttributeNames: ['QueueArn'] }))).Attributes
const QueueUrl = await makeQueue(name, { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: QueueArn, maxReceiveCount: 2 }) })

const receive = async (most, from = QueueUrl) => (await sqs.send(new ReceiveMessageCommand({
  QueueUrl: from, MaxNumberOfMessages: most, WaitTimeSeconds: 20, MessageAttributeNames: ['All'], MessageSystemAttributeNames: ['All'],
}))).Messages ?? []
const release = (message, VisibilityTimeout) => sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout }))
const remove = (message, from = QueueUrl) => sqs.send(new DeleteMessageCommand({ QueueUrl: from, ReceiptHandle: message.ReceiptHandle }))

const day = await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'in a day', DelaySeconds: 86400 }))

const began = Date.now()
await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'in two seconds', DelaySeconds: 2 }))
const [soon] = await receive(10)
const waited = (Date.now() - began) / 1000
assert.equal(soon.Body, 'in two seconds')
await remove(soon)

const MessageAttributes = {
  Customer: { DataType: 'String', StringValue: 'Grüße' },
  'total.eur': { DataType: 'Number.cents', StringValue: '1250' },
  raw: { DataType: 'Binary', BinaryValue: Uint8Array.from([0, 1, 254, 255]) },
}
const sent = await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'bad order', MessageAttributes }))
const md5s = [sent.MD5OfMessageAttributes]
for (const attempt of ['1', '2']) {
  const [bad] = await receive(1)
  assert.equal(bad.MessageId, sent.MessageId)
  assert.deepEqual(bad.MessageAttributes, MessageAttributes)
  assert.equal(bad.Attributes.ApproximateReceiveCount, attempt)
  md5s.push(bad.MD5OfMessageAttributes)
  await release(bad, 60)
  await release(bad, 0)
}
const [buried] = await receive(1, dead)
assert.equal(buried.MessageId, sent.MessageId)
assert.deepEqual(buried.MessageAttributes, MessageAttributes)
md5s.push(buried.MD5OfMessageAttributes)
await remove(buried, dead)

const Entries = Array.from({ length: 10 }, (_, at) => ({ Id: `entry-${at}`, MessageBody: `batch ${at}` }))
assert.equal((await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }))).Successful.length, 10)
const seen = []
while (seen.length < 10) {
  const messages = await receive(10)
  const handles = messages.map(({ ReceiptHandle }, at) => ({ Id: `${at}`, ReceiptHandle }))
  const kept = handles.map((handle) => ({ ...handle, VisibilityTimeout: 100 }))
  assert.equal((await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries: kept }))).Successful.length, handles.length)
  assert.equal((await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries: handles }))).Successful.length, handles.length)
  seen.push(...messages.map((message) => message.Body))
}
assert.deepEqual(seen.sort(), Entries.map((entry) => entry.MessageBody))

await assert.rejects(sqs.send(new GetQueueUrlCommand({ QueueName: `${name}-absent` })), QueueDoesNotExist)
const { Attributes: counts } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }))
const pending = ['', 'NotVisible', 'Delayed'].map((state) => Number(counts[`ApproximateNumberOfMessages${state}`]))
console.log(JSON.stringify({ day: day.MessageId, waited, md5s, pending }))
