// kafkajs: its admin client, producers and a consumer group, against the broker that is named.
//
//     node kafkajs.js 127.0.0.1:9092
//
// Prints one JSON object a line, {"call": ..., "outcome": ...}. What is another one in each run
// (addresses, ids, times, texts for people) is left out, so that two brokers that behave alike give
// the same lines.
'use strict'

const {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  ResourcePatternTypes,
  logLevel,
} = require('kafkajs')

const PATIENCE_MS = 20000
const PAUSE_MS = 50
const TIME = 1700000000000
const TOPIC = 'kafkajs-records'
const COPY = 'kafkajs-transactions'
const SHORT = 'kafkajs-short'
const GROUP = 'kafkajs-readers'
const OTHER_GROUP = 'kafkajs-others'
const IN_TRANSACTION = 'kafkajs-in-transactions'

// The partitioner's warning is the only thing that would be written beside the outcomes.
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const kafka = new Kafka({
  brokers: [process.argv[2]],
  clientId: 'kafkajs-interop',
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: PAUSE_MS, retries: 10 },
})
const admin = kafka.admin()
// For calls that are refused: kafkajs would try some of them again.
const once = kafka.admin({ retry: { retries: 0 } })

const print = (call, outcome) => process.stdout.write(JSON.stringify({ call, outcome }) + '\n')

function failed(error) {
  if (error.name === 'KafkaJSNumberOfRetriesExceeded' && error.cause) return failed(error.cause)
  const told = { error: error.name }
  for (const field of ['type', 'topic', 'partition', 'groupId']) {
    if (error[field] !== undefined) told[field] = error[field]
  }
  for (const field of ['errors', 'partitions', 'groups']) {
    if (Array.isArray(error[field]))
      told[field] = error[field].map(each => failed(each.error || each))
  }
  if (error.type === undefined && error.name === 'KafkaJSNonRetriableError')
    told.text = error.message
  return told
}

// Asks, and prints the answer, without what `select` leaves out, or the error.
async function outcome(call, ask, select = answer => answer) {
  let result
  try {
    result = select(await ask())
  } catch (error) {
    result = failed(error)
  }
  print(call, result === undefined ? 'done' : result)
}

// Asks again until the answer holds: for what a broker learns a moment after it was decided.
async function until(call, ask, holds, select = answer => answer) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end;) {
    try {
      const answer = await ask()
      if (holds(answer)) break
    } catch (error) {
      // Not yet.
    }
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
  }
  await outcome(call, ask, select)
}

const by = field => (a, b) => (a[field] < b[field] ? -1 : a[field] > b[field] ? 1 : 0)
const ours = names => names.filter(name => name.startsWith('kafkajs-')).sort()
const text = bytes => (bytes === null || bytes === undefined ? null : bytes.toString())
const perPartition = found => [...found].sort(by('partition'))
const perTopic = found =>
  [...found].sort(by('topic')).map(({ topic, partitions }) => ({
    topic,
    partitions: perPartition(partitions),
  }))
const topicsOf = ({ topics }) =>
  [...topics].sort(by('name')).map(({ name, partitions }) => ({
    name,
    partitions: [...partitions].sort(by('partitionId')),
  }))
const settings = ({ resources }) =>
  resources.map(({ errorCode, resourceType, resourceName, configEntries }) => ({
    errorCode,
    resourceType,
    resourceName,
    entries: [...configEntries].sort(by('configName')),
  }))
const groupsOf = ({ groups }) =>
  [...groups]
    .sort(by('groupId'))
    .map(({ errorCode, groupId, members, protocol, protocolType, state }) => ({
      errorCode,
      groupId,
      protocol,
      protocolType,
      state,
      members: members.map(({ clientId }) => clientId),
    }))

async function topics() {
  await outcome(
    'describe cluster',
    () => admin.describeCluster(),
    ({ brokers, controller, clusterId }) => ({
      brokers: brokers.map(({ nodeId, host }) => ({ nodeId, host })),
      controller,
      clusterId: typeof clusterId,
    }),
  )
  const create = (topic, config = {}, more = {}) =>
    once.createTopics({ topics: [{ topic, ...config }], waitForLeaders: false, ...more })
  const configEntries = [{ name: 'retention.ms', value: '86400000' }]
  await outcome('create a topic', () =>
    create(TOPIC, { numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '-1' }] }),
  )
  await outcome('create it again', () => create(TOPIC))
  await outcome('validate a topic', () =>
    create('kafkajs-no', { configEntries }, { validateOnly: true }),
  )
  await outcome('create with an assignment', () =>
    create(COPY, { replicaAssignment: [{ partition: 0, replicas: [1] }] }),
  )
  await outcome('create with defaults', () =>
    create(SHORT, { numPartitions: -1, replicationFactor: -1 }),
  )
  await outcome('create with a bad name', () => create('kafkajs/bad'))
  await outcome('create with too many replicas', () =>
    create('kafkajs-no', { replicationFactor: 2 }),
  )
  await outcome('create without partitions', () => create('kafkajs-no', { numPartitions: 0 }))
  await outcome('create on a missing broker', () =>
    create('kafkajs-no', { replicaAssignment: [{ partition: 0, replicas: [7] }] }),
  )
  await outcome('create with a gap between partitions', () =>
    create('kafkajs-no', { replicaAssignment: [{ partition: 1, replicas: [1] }] }),
  )
  for (const [name, value] of [
    ['retention.ms', 'soon'],
    ['no.such.setting', '1'],
    ['cleanup.policy', 'no'],
  ]) {
    await outcome(`create with ${name}=${value}`, () =>
      create('kafkajs-no', { configEntries: [{ name, value }] }),
    )
  }
  await outcome('create several, of which one is refused', () =>
    once.createTopics({
      topics: [
        { topic: 'kafkajs-several' },
        { topic: 'kafkajs-several-bad', replicationFactor: 3 },
      ],
      waitForLeaders: false,
    }),
  )
  await until(
    'list topics',
    () => admin.listTopics(),
    found => ours(found).length === 4,
    ours,
  )

  const grow = (topic, count, more = {}) =>
    once.createPartitions({ topicPartitions: [{ topic, count, ...more }] })
  await outcome('validate partitions', () =>
    once.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 3 }], validateOnly: true }),
  )
  await outcome('create partitions', () => grow(TOPIC, 3))
  await outcome('create fewer partitions', () => grow(TOPIC, 1))
  await outcome('create as many partitions', () => grow(TOPIC, 3))
  await outcome('create partitions of no topic', () => grow('kafkajs-missing', 3))
  await outcome('create partitions on a missing broker', () =>
    grow(TOPIC, 4, { assignments: [[7]] }),
  )
  const metadata = () => admin.fetchTopicMetadata({ topics: [TOPIC, COPY] })
  await until(
    'fetch topic metadata',
    metadata,
    found =>
      found.topics
        .map(topic => topic.partitions.length)
        .sort()
        .join() === '1,3',
    topicsOf,
  )
}

async function records() {
  // A broker creates the topics of its coordinators when they are asked for.
  await until(
    'describe no group',
    () => admin.describeGroups(['kafkajs-missing']),
    () => true,
    groupsOf,
  )
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  await producer.connect()
  const told = found =>
    found.map(({ topicName, partition, errorCode, baseOffset }) => ({
      topicName,
      partition,
      errorCode,
      baseOffset,
    }))
  const message = (value, more = {}) => ({
    key: `key ${value}`,
    value: `value ${value}`,
    partition: 0,
    timestamp: String(TIME + value),
    headers: { of: 'kafkajs', several: ['a', 'b'] },
    ...more,
  })
  for (const [name, compression] of [
    ['none', CompressionTypes.None],
    ['gzip', CompressionTypes.GZIP],
  ]) {
    for (const acks of [-1, 1]) {
      await outcome(
        `send, ${name}, acks ${acks}`,
        () =>
          producer.send({ topic: TOPIC, acks, compression, messages: [message(1), message(2)] }),
        told,
      )
    }
  }
  await outcome('send, acks 0', () =>
    producer.send({ topic: TOPIC, acks: 0, messages: [message(3)] }),
  )
  await outcome(
    'send without key and value',
    () =>
      producer.send({
        topic: TOPIC,
        messages: [message(4, { key: null, value: null, headers: undefined })],
      }),
    told,
  )
  await outcome(
    'send to partitions of keys',
    () =>
      producer.send({
        topic: TOPIC,
        messages: [1, 2, 3, 4, 5, 6].map(value => message(value, { partition: undefined })),
      }),
    found => perPartition(told(found)),
  )
  await outcome(
    'send a batch to two topics',
    () =>
      producer.sendBatch({
        topicMessages: [TOPIC, SHORT].map(topic => ({
          topic,
          messages: [message(5, { partition: 0 })],
        })),
      }),
    found => told(found).sort(by('topicName')),
  )
  await producer.disconnect()

  const refused = kafka.producer({ allowAutoTopicCreation: false, retry: { retries: 0 } })
  await refused.connect()
  await outcome('send what is too large', () =>
    refused.send({ topic: TOPIC, messages: [message(6, { value: 'x'.repeat(2000000) })] }),
  )
  await outcome('send to no topic', () =>
    refused.send({ topic: 'kafkajs-missing', messages: [message(6)] }),
  )
  await refused.disconnect()

  const idempotent = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await idempotent.connect()
  for (const value of [7, 8]) {
    await outcome(
      `send idempotently, ${value}`,
      () => idempotent.send({ topic: TOPIC, messages: [message(value, { partition: 1 })] }),
      told,
    )
  }
  await idempotent.disconnect()
  await transactions(message, told)
}

async function transactions(message, told) {
  const make = () =>
    kafka.producer({ transactionalId: 'kafkajs', idempotent: true, maxInFlightRequests: 1 })
  const producer = make()
  await producer.connect()
  const begin = async (values, offset) => {
    const transaction = await producer.transaction()
    for (const value of values) {
      await outcome(
        `send in a transaction, ${value}`,
        () => transaction.send({ topic: COPY, messages: [message(value)] }),
        told,
      )
    }
    await outcome(`send offsets in a transaction, ${values}`, () =>
      transaction.sendOffsets({
        consumerGroupId: IN_TRANSACTION,
        topics: [{ topic: TOPIC, partitions: [{ partition: 0, offset }] }],
      }),
    )
    return transaction
  }
  const offsets = () => admin.fetchOffsets({ groupId: IN_TRANSACTION, topics: [TOPIC] })
  const at = offset => found =>
    found.some(({ partitions }) =>
      partitions.some(each => each.partition === 0 && each.offset === offset),
    )
  const first = await begin([1, 2], '5')
  await outcome('fetch offsets of an open transaction', offsets, perTopic)
  await outcome('commit', () => first.commit())
  await until('fetch offsets of a committed transaction', offsets, at('5'), perTopic)
  const second = await begin([3, 4], '9')
  await outcome('abort', () => second.abort())
  await outcome('fetch offsets of an aborted transaction', offsets, perTopic)
  const third = await begin([5], '7')
  await outcome('commit again', () => third.commit())
  await until('fetch offsets of the third transaction', offsets, at('7'), perTopic)
  const newer = make()
  await newer.connect()
  const fenced = await producer.transaction()
  const send = (transaction, value) => () =>
    transaction.send({ topic: COPY, messages: [message(value)] })
  await outcome('send what a newer producer ends', send(fenced, 6), told)
  const transaction = await newer.transaction()
  await outcome('send as a fenced producer', send(fenced, 7), told)
  await outcome('commit as a fenced producer', () => fenced.commit())
  await outcome('send as a newer producer', send(transaction, 8), told)
  await outcome('commit as a newer producer', () => transaction.commit())
  await newer.disconnect()
  await producer.disconnect()
  await until(
    'fetch offsets of transactions',
    () => admin.fetchTopicOffsets(COPY),
    ([{ high }]) => high === '12',
    perPartition,
  )
}

// Reads so many records in a group, and calls `meanwhile` while it has its members.
async function read(topic, count, meanwhile) {
  const consumer = kafka.consumer({ groupId: GROUP, maxWaitTimeInMs: 100, rebalanceTimeout: 5000 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const found = []
  let timer
  await new Promise((resolve, reject) => {
    timer = setTimeout(resolve, PATIENCE_MS)
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer
      .run({
        eachMessage: async ({ partition, message }) => {
          const { key, value, offset, timestamp, headers } = message
          const told = {
            partition,
            offset,
            key: text(key),
            value: text(value),
            timestamp,
            headers: {},
          }
          for (const [name, given] of Object.entries(headers)) {
            told.headers[name] = Array.isArray(given) ? given.map(text) : text(given)
          }
          found.push(told)
          if (found.length === count) resolve()
        },
      })
      .catch(reject)
  })
  clearTimeout(timer)
  if (meanwhile) await meanwhile()
  await consumer.disconnect()
  const place = ({ partition, offset }) => partition * 1000 + Number(offset)
  return found.sort((a, b) => place(a) - place(b))
}

async function groups() {
  await outcome(`read ${TOPIC}`, () =>
    read(TOPIC, 19, async () => {
      await outcome('describe a group with a member', () => admin.describeGroups([GROUP]), groupsOf)
      await outcome('delete a group with a member', () => once.deleteGroups([GROUP]))
    }),
  )
  await outcome(`read ${COPY}`, () => read(COPY, 4))
  await outcome(
    'list groups',
    () => admin.listGroups(),
    ({ groups }) =>
      groups.filter(({ groupId }) => groupId.startsWith('kafkajs-')).sort(by('groupId')),
  )
  await outcome('describe groups', () => admin.describeGroups([GROUP, 'kafkajs-missing']), groupsOf)
  const offsets =
    (groupId, more = {}) =>
    () =>
      admin.fetchOffsets({ groupId, topics: [TOPIC], ...more })
  await outcome('fetch offsets', offsets(GROUP), perTopic)
  await outcome(
    'fetch offsets of all topics',
    () => admin.fetchOffsets({ groupId: GROUP }),
    perTopic,
  )
  await outcome('fetch offsets of no group', offsets('kafkajs-missing'), perTopic)
  const set = partitions => admin.setOffsets({ groupId: OTHER_GROUP, topic: TOPIC, partitions })
  await outcome('set offsets', () =>
    set([
      { partition: 0, offset: '3' },
      { partition: 1, offset: '1' },
    ]),
  )
  await outcome('fetch offsets that were set', offsets(OTHER_GROUP), perTopic)
  await outcome('reset offsets', () =>
    admin.resetOffsets({ groupId: GROUP, topic: TOPIC, earliest: true }),
  )
  await outcome('fetch offsets that were reset', offsets(GROUP), perTopic)
  await outcome('fetch and resolve offsets', offsets(GROUP, { resolveOffsets: true }), perTopic)
  await outcome('fetch offsets that were resolved', offsets(GROUP), perTopic)
}

async function offsets() {
  await outcome('fetch topic offsets', () => admin.fetchTopicOffsets(TOPIC), perPartition)
  await outcome('fetch topic offsets of no topic', () => once.fetchTopicOffsets('kafkajs-missing'))
  for (const time of [TIME, TIME + 2, TIME + 1000]) {
    await outcome(
      `fetch topic offsets at ${time}`,
      () => admin.fetchTopicOffsetsByTimestamp(TOPIC, time),
      perPartition,
    )
  }
  const remove = (...partitions) => once.deleteTopicRecords({ topic: TOPIC, partitions })
  await outcome('delete topic records', () => remove({ partition: 0, offset: '4' }))
  await outcome('delete topic records beyond the end', () =>
    remove({ partition: 0, offset: '1000' }),
  )
  await outcome('delete topic records of no partition', () => remove({ partition: 9, offset: '1' }))
  await outcome('delete all topic records', () => remove({ partition: 1, offset: '-1' }))
  await outcome(
    'fetch topic offsets of the rest',
    () => admin.fetchTopicOffsets(TOPIC),
    perPartition,
  )
}

async function configs() {
  const topic = (configEntries, name = TOPIC) => ({
    type: ConfigResourceTypes.TOPIC,
    name,
    configEntries,
  })
  const describe =
    (resource, includeSynonyms = true) =>
    () =>
      once.describeConfigs({ resources: [resource], includeSynonyms })
  const names = ['retention.ms', 'cleanup.policy', 'no.such.setting']
  await outcome(
    'describe configs of a topic',
    describe({ ...topic(), configNames: names }),
    settings,
  )
  await outcome('describe all configs of a topic', describe(topic(), false), settings)
  await outcome(
    'describe configs of no topic',
    describe(topic(undefined, 'kafkajs-missing')),
    settings,
  )
  const broker = { type: ConfigResourceTypes.BROKER, name: '1' }
  await outcome(
    'describe configs of a broker',
    describe({
      ...broker,
      configNames: [
        'log.retention.ms',
        'log.retention.hours',
        'message.max.bytes',
        'num.partitions',
      ],
    }),
    settings,
  )
  const alter =
    (resource, validateOnly = false) =>
    () =>
      once.alterConfigs({ resources: [resource], validateOnly })
  const changed = ({ resources }) =>
    resources.map(({ errorCode, resourceName, resourceType }) => ({
      errorCode,
      resourceName,
      resourceType,
    }))
  const entries = [{ name: 'max.message.bytes', value: '12345' }]
  await outcome('validate configs', alter(topic(entries), true), changed)
  await outcome('alter configs', alter(topic(entries)), changed)
  await until(
    'describe configs that were altered',
    describe({ ...topic(), configNames: ['max.message.bytes', 'retention.ms'] }),
    ({ resources: [{ configEntries }] }) =>
      configEntries.some(({ configValue }) => configValue === '12345'),
    settings,
  )
  await outcome(
    'alter configs to a bad value',
    alter(topic([{ name: 'retention.ms', value: 'soon' }])),
    changed,
  )
  await outcome(
    'alter configs that do not exist',
    alter(topic([{ name: 'no.such', value: '1' }])),
    changed,
  )
  await outcome('alter configs of no topic', alter(topic(entries, 'kafkajs-missing')), changed)
}

async function cluster() {
  const acl = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: TOPIC,
    resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: 'User:kafkajs',
    host: '*',
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.ALLOW,
  }
  await outcome('create acls', () => once.createAcls({ acl: [acl] }))
  await outcome('describe acls', () => once.describeAcls(acl))
  await outcome(
    'delete acls',
    () => once.deleteAcls({ filters: [acl] }),
    ({ filterResponses }) => filterResponses,
  )
  const reassign = (topic, partition, replicas) => () =>
    once.alterPartitionReassignments({
      topics: [{ topic, partitionAssignment: [{ partition, replicas }] }],
    })
  await outcome('reassign to the same broker', reassign(TOPIC, 0, [1]))
  await outcome('reassign to a missing broker', reassign(TOPIC, 0, [1, 7]))
  await outcome('reassign to a broker twice', reassign(TOPIC, 0, [1, 1]))
  await outcome('reassign to no broker', reassign(TOPIC, 0, []))
  await outcome('reassign no partition', reassign(TOPIC, 9, [1]))
  await outcome('reassign no topic', reassign('kafkajs-missing', 0, [1]))
  await outcome('list reassignments', () => once.listPartitionReassignments({}))
  await outcome('list reassignments of a topic', () =>
    once.listPartitionReassignments({ topics: [{ topic: TOPIC, partitions: [0, 1] }] }),
  )
}

async function removal() {
  await outcome(
    'delete groups',
    () => once.deleteGroups([GROUP, OTHER_GROUP, IN_TRANSACTION]),
    found => [...found].sort(by('groupId')),
  )
  await outcome('delete no group', () => once.deleteGroups(['kafkajs-missing']))
  await outcome('delete topics', () => once.deleteTopics({ topics: [TOPIC, COPY] }))
  await outcome('delete no topic', () => once.deleteTopics({ topics: ['kafkajs-missing'] }))
  await until(
    'list topics that are left',
    () => admin.listTopics(),
    found => ours(found).length === 2,
    ours,
  )
  await outcome('delete the others', () =>
    once.deleteTopics({ topics: [SHORT, 'kafkajs-several'] }),
  )
}

async function main() {
  await admin.connect()
  await once.connect()
  for (const part of [topics, records, groups, offsets, configs, cluster, removal]) await part()
  await admin.disconnect()
  await once.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
