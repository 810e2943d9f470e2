// kafka-go: its Client, Writer and Reader against the broker that is named.
//
//	kafkago 127.0.0.1:9092
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"odradek/interop/outcome"
)

const (
	topic         = "kafka-go-records"
	written       = "kafka-go-written"
	transacted    = "kafka-go-transactions"
	missing       = "kafka-go-missing"
	group         = "kafka-go-readers"
	committer     = "kafka-go-committers"
	inTransaction = "kafka-go-in-transactions"
	transactional = "kafka-go"
	perPartition  = 6
	timeout       = 30 * time.Second
)

var (
	client        *kafka.Client
	brokerAddress string
	background    = context.Background()
	start         = time.UnixMilli(1_700_000_000_000)
)

func main() {
	outcome.Name = name
	brokerAddress = os.Args[1]
	client = &kafka.Client{
		Addr:      kafka.TCP(brokerAddress),
		Timeout:   timeout,
		Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond},
	}
	topics()
	partitions()
	configs()
	produce()
	offsets()
	groups()
	transactions()
	security()
	removal()
}

func name(err error) string {
	var known kafka.Error
	if !errors.As(err, &known) {
		return ""
	}
	return strings.ReplaceAll(known.Title(), " ", "")
}

func topics() {
	versions, err := client.ApiVersions(background, &kafka.ApiVersionsRequest{})
	if err == nil {
		// The keys of what a client needs; which others there are is compared elsewhere.
		kept := versions.ApiKeys[:0]
		for _, each := range versions.ApiKeys {
			if each.ApiKey <= 3 || 8 <= each.ApiKey && each.ApiKey <= 16 {
				kept = append(kept, each)
			}
		}
		versions.ApiKeys = kept
	}
	outcome.Of("api versions")(versions, err)
	config := func(name, value string) []kafka.ConfigEntry {
		return []kafka.ConfigEntry{{ConfigName: name, ConfigValue: value}}
	}
	// Without ValidateOnly, after which kafka-go waits for the topics as if they were created.
	create := func(call string, configs ...kafka.TopicConfig) {
		outcome.Of(call)(client.CreateTopics(background, &kafka.CreateTopicsRequest{Topics: configs}))
	}
	one := func(name string) kafka.TopicConfig {
		return kafka.TopicConfig{Topic: name, NumPartitions: 1, ReplicationFactor: 1}
	}
	with := func(name string, change func(*kafka.TopicConfig)) kafka.TopicConfig {
		config := one(name)
		change(&config)
		return config
	}
	create("create topics",
		with(topic, func(c *kafka.TopicConfig) { c.NumPartitions = 2 }),
		with(written, func(c *kafka.TopicConfig) { c.ConfigEntries = config("retention.ms", "-1") }),
		with(transacted, func(c *kafka.TopicConfig) {
			c.NumPartitions, c.ReplicationFactor = -1, -1
			c.ReplicaAssignments = []kafka.ReplicaAssignment{{Partition: 0, Replicas: []int{1}}}
		}),
	)
	create("create them again", one(topic), one(written))
	create("create topics that are refused",
		one("kafka-go/bad"),
		with("kafka-go-replicas", func(c *kafka.TopicConfig) { c.ReplicationFactor = 2 }),
		with("kafka-go-none", func(c *kafka.TopicConfig) { c.NumPartitions = 0 }),
		with("kafka-go-config", func(c *kafka.TopicConfig) {
			c.ConfigEntries = config("retention.ms", "soon")
		}),
	)
	outcome.Until("metadata",
		func(found *kafka.MetadataResponse) bool { return len(found.Topics) == 3 && settled(found) },
		func() (*kafka.MetadataResponse, error) { return metadata(topic, written, transacted) },
	)
	outcome.Of("metadata of no topic")(metadata(missing))
	// A broker creates the topics of its coordinators when they are asked for.
	coordinator := func(call, key string, kind kafka.CoordinatorKeyType) {
		outcome.Until(call,
			func(found *kafka.FindCoordinatorResponse) bool { return found.Error == nil },
			func() (*kafka.FindCoordinatorResponse, error) {
				return client.FindCoordinator(background,
					&kafka.FindCoordinatorRequest{Key: key, KeyType: kind})
			})
	}
	coordinator("find the coordinator of a group", group, kafka.CoordinatorKeyTypeConsumer)
	coordinator("find the coordinator of a transaction", transactional,
		kafka.CoordinatorKeyTypeTransaction)
}

func metadata(names ...string) (*kafka.MetadataResponse, error) {
	return client.Metadata(background, &kafka.MetadataRequest{Topics: names})
}

// settled tells whether every topic is known and every partition has a leader.
func settled(found *kafka.MetadataResponse) bool {
	for _, each := range found.Topics {
		for _, partition := range each.Partitions {
			if partition.Error != nil {
				return false
			}
		}
		if each.Error != nil {
			return false
		}
	}
	return true
}

func partitions() {
	grow := func(call string, name string, count int32, validate bool, brokers ...[]int32) {
		config := kafka.TopicPartitionsConfig{Name: name, Count: count}
		for _, ids := range brokers {
			config.TopicPartitionAssignments = append(config.TopicPartitionAssignments,
				kafka.TopicPartitionAssignment{BrokerIDs: ids})
		}
		outcome.Of(call)(client.CreatePartitions(background, &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{config}, ValidateOnly: validate,
		}))
	}
	grow("validate partitions", topic, 3, true)
	grow("create partitions", topic, 3, false)
	grow("create fewer partitions", topic, 1, false)
	grow("create partitions of no topic", missing, 3, false)
	grow("create partitions on a missing broker", topic, 4, false, []int32{7})
	outcome.Until("metadata of three partitions",
		func(found *kafka.MetadataResponse) bool {
			return len(found.Topics[0].Partitions) == 3 && settled(found)
		},
		func() (*kafka.MetadataResponse, error) { return metadata(topic) },
	)
	elect := func(call, name string, partitions ...int) {
		outcome.Of(call)(client.ElectLeaders(background, &kafka.ElectLeadersRequest{
			Topic: name, Partitions: partitions, Timeout: timeout,
		}))
	}
	elect("elect leaders", topic, 0, 1)
	elect("elect the leader of no partition", topic, 9)
	elect("elect the leader of no topic", missing, 0)
	reassign := func(call string, name string, partition int, brokers ...int) {
		outcome.Of(call)(client.AlterPartitionReassignments(background,
			&kafka.AlterPartitionReassignmentsRequest{
				Topic: name,
				Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{
					{PartitionID: partition, BrokerIDs: brokers},
				},
				Timeout: timeout,
			}))
	}
	reassign("reassign to the same broker", topic, 0, 1)
	reassign("reassign to a missing broker", topic, 0, 1, 7)
	reassign("reassign to a broker twice", topic, 0, 1, 1)
	reassign("cancel no reassignment", topic, 0)
	reassign("reassign no partition", topic, 9, 1)
	reassign("reassign no topic", missing, 0, 1)
	outcome.Of("list reassignments")(client.ListPartitionReassignments(background,
		&kafka.ListPartitionReassignmentsRequest{
			Topics: map[string]kafka.ListPartitionReassignmentsRequestTopic{
				topic: {PartitionIndexes: []int{0, 1}},
			},
			Timeout: timeout,
		}))
}

func configs() {
	describe := func(
		kind kafka.ResourceType, name string, settings ...string,
	) *kafka.DescribeConfigsRequest {
		return &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{
				{ResourceType: kind, ResourceName: name, ConfigNames: settings},
			},
			IncludeSynonyms: true,
		}
	}
	ask := func(request *kafka.DescribeConfigsRequest) func() (*kafka.DescribeConfigsResponse, error) {
		return func() (*kafka.DescribeConfigsResponse, error) {
			return client.DescribeConfigs(background, request)
		}
	}
	ofTopic := describe(kafka.ResourceTypeTopic, topic, "retention.ms", "max.message.bytes")
	outcome.Of("describe configs")(ask(ofTopic)())
	outcome.Of("describe all configs")(ask(describe(kafka.ResourceTypeTopic, topic))())
	outcome.Of("describe configs of no topic")(ask(describe(kafka.ResourceTypeTopic, missing))())
	outcome.Of("describe configs of a broker")(
		ask(describe(kafka.ResourceTypeBroker, "1", "log.retention.ms", "message.max.bytes"))())

	alter := func(call, name string, configs ...kafka.IncrementalAlterConfigsRequestConfig) {
		outcome.Of(call)(client.IncrementalAlterConfigs(background,
			&kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{
					{ResourceType: kafka.ResourceTypeTopic, ResourceName: name, Configs: configs},
				},
			}))
	}
	change := func(
		operation kafka.ConfigOperation, name, value string,
	) kafka.IncrementalAlterConfigsRequestConfig {
		return kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: operation,
		}
	}
	alter("alter configs by increments", topic,
		change(kafka.ConfigOperationSet, "max.message.bytes", "12345"),
		change(kafka.ConfigOperationAppend, "cleanup.policy", "compact"))
	outcome.Until("describe configs that were altered", isSet("12345"),
		ask(describe(kafka.ResourceTypeTopic, topic, "max.message.bytes", "cleanup.policy")))
	alter("subtract and delete", topic,
		change(kafka.ConfigOperationDelete, "max.message.bytes", ""),
		change(kafka.ConfigOperationSubtract, "cleanup.policy", "compact"))
	alter("append to what is no list", topic,
		change(kafka.ConfigOperationAppend, "retention.ms", "1"))
	alter("set a bad value", topic, change(kafka.ConfigOperationSet, "retention.ms", "soon"))
	alter("set what does not exist", topic, change(kafka.ConfigOperationSet, "no.such", "1"))
	alter("alter configs of no topic", missing,
		change(kafka.ConfigOperationSet, "retention.ms", "1"))

	replace := func(call, name string, validate bool, configs ...kafka.AlterConfigRequestConfig) {
		outcome.Of(call)(client.AlterConfigs(background, &kafka.AlterConfigsRequest{
			Resources: []kafka.AlterConfigRequestResource{
				{ResourceType: kafka.ResourceTypeTopic, ResourceName: name, Configs: configs},
			},
			ValidateOnly: validate,
		}))
	}
	setting := kafka.AlterConfigRequestConfig{Name: "retention.ms", Value: "86400000"}
	replace("validate configs", written, true, setting)
	replace("alter configs", topic, false, setting)
	outcome.Until("describe configs that were replaced", isSet("86400000"), ask(ofTopic))
	replace("alter configs to a bad value", topic, false,
		kafka.AlterConfigRequestConfig{Name: "retention.ms", Value: "soon"})
	replace("alter configs of the missing topic", missing, false, setting)
	// Records of a long time ago are written later.
	replace("keep all records", topic, false,
		kafka.AlterConfigRequestConfig{Name: "retention.ms", Value: "-1"})
	outcome.Until("describe the retention of all", isSet("-1"), ask(ofTopic))
}

func isSet(value string) func(*kafka.DescribeConfigsResponse) bool {
	return func(found *kafka.DescribeConfigsResponse) bool {
		for _, entry := range found.Resources[0].ConfigEntries {
			if entry.ConfigValue == value {
				return true
			}
		}
		return false
	}
}

// message returns a message whose key and time follow from a number.
func message(number int) kafka.Message {
	return kafka.Message{
		Key:     fmt.Appendf(nil, "key %d", number),
		Value:   fmt.Appendf(nil, "value %d", number),
		Headers: []kafka.Header{{Key: "of", Value: []byte("kafka-go")}},
		Time:    start.Add(time.Duration(number) * time.Millisecond),
	}
}

func produce() {
	compressions := map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	names := make([]string, 0, len(compressions))
	for name := range compressions {
		names = append(names, name)
	}
	sort.Strings(names)
	for index, name := range names {
		// Half of them by the Writer, of which each message goes where its key says.
		writer := &kafka.Writer{
			Addr:         kafka.TCP(brokerAddress),
			Topic:        topic,
			Balancer:     kafka.Murmur2Balancer{},
			RequiredAcks: kafka.RequireAll,
			BatchTimeout: time.Millisecond,
			Compression:  compressions[name],
		}
		messages := make([]kafka.Message, perPartition)
		for number := range messages {
			messages[number] = message(10*index + number)
		}
		outcome.OfError("write, "+name, writer.WriteMessages(background, messages...))
		writer.Close()
		outcome.Of("produce, " + name)(client.Produce(background, &kafka.ProduceRequest{
			Topic: written, RequiredAcks: kafka.RequireAll, Compression: compressions[name],
			Records: kafka.NewRecordReader(kafka.Record{
				Key:   kafka.NewBytes([]byte("key")),
				Value: kafka.NewBytes([]byte("value " + name)),
				Time:  start.Add(time.Duration(index) * time.Second),
			}),
		}))
	}
	refused := func(call, name string, partition int, acks kafka.RequiredAcks) {
		outcome.Of(call)(client.Produce(background, &kafka.ProduceRequest{
			Topic: name, Partition: partition, RequiredAcks: acks,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte("value"))}),
		}))
	}
	refused("produce with acks that do not exist", written, 0, 5)
	refused("produce to no partition", written, 9, kafka.RequireAll)
	refused("produce to no topic", missing, 0, kafka.RequireAll)
	fetch("fetch", kafka.FetchRequest{Topic: written})
	fetch("fetch in the middle", kafka.FetchRequest{Topic: written, Offset: 3})
	fetch("fetch beyond the end", kafka.FetchRequest{Topic: written, Offset: 100})
	fetch("fetch from no partition", kafka.FetchRequest{Topic: written, Partition: 9})
}

func fetch(call string, request kafka.FetchRequest) {
	request.MaxBytes, request.MinBytes, request.MaxWait = 1<<20, 1, 100*time.Millisecond
	answer, err := client.Fetch(background, &request)
	if err != nil {
		outcome.OfError(call, err)
		return
	}
	records := []string{}
	for answer.Records != nil {
		record, err := answer.Records.ReadRecord()
		if err != nil {
			break
		}
		value, _ := kafka.ReadAll(record.Value)
		records = append(records, fmt.Sprintf("%d %s %d", record.Offset, value, record.Time.UnixMilli()))
	}
	answer.Records = nil
	outcome.Print(call, map[string]any{"answer": answer, "records": records})
}

func offsets() {
	list := func(call, name string, asked ...kafka.OffsetRequest) {
		outcome.Of(call)(client.ListOffsets(background, &kafka.ListOffsetsRequest{
			Topics: map[string][]kafka.OffsetRequest{name: asked},
		}))
	}
	list("list offsets", topic, kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0),
		kafka.FirstOffsetOf(1), kafka.LastOffsetOf(1), kafka.FirstOffsetOf(2), kafka.LastOffsetOf(2))
	list("list offsets at a time", written, kafka.TimeOffsetOf(0, start.Add(1500*time.Millisecond)))
	list("list offsets after all", written, kafka.TimeOffsetOf(0, start.Add(time.Hour)))
	list("list offsets of no partition", written, kafka.FirstOffsetOf(9))
}

func groups() {
	read := readAll(topic, 5*perPartition)
	outcome.Print("read in a group", read)
	outcome.Until("describe a group that was left",
		func(found *kafka.DescribeGroupsResponse) bool { return found.Groups[0].GroupState == "Empty" },
		func() (*kafka.DescribeGroupsResponse, error) { return describeGroups(group) })
	outcome.Of("describe no group")(describeGroups(missing))
	outcome.Of("fetch offsets of the group")(fetchOffsets(group, topic, 0, 1, 2))

	commit := func(call, id string, generation int, member string, partition int, offset int64) {
		outcome.Of(call)(client.OffsetCommit(background, &kafka.OffsetCommitRequest{
			GroupID: id, GenerationID: generation, MemberID: member,
			Topics: map[string][]kafka.OffsetCommit{
				topic: {{Partition: partition, Offset: offset, Metadata: "noted"}},
			},
		}))
	}
	commit("commit an offset", committer, -1, "", 0, 3)
	commit("commit an offset of no partition", committer, -1, "", 9, 3)
	commit("commit as no member", group, 1, "nobody", 0, 3)
	commit("commit in a generation of no group", "kafka-go-none", 3, "nobody", 0, 3)
	outcome.Of("fetch offsets that were committed")(fetchOffsets(committer, topic, 0, 1))
	outcome.Of("fetch offsets of no group")(fetchOffsets(missing, topic, 0))
	outcome.Of("delete offsets")(client.OffsetDelete(background, &kafka.OffsetDeleteRequest{
		GroupID: committer, Topics: map[string][]int{topic: {0, 1}},
	}))
	outcome.Of("delete offsets of no group")(client.OffsetDelete(background,
		&kafka.OffsetDeleteRequest{GroupID: missing, Topics: map[string][]int{topic: {0}}}))
	outcome.Of("fetch offsets that were deleted")(fetchOffsets(committer, topic, 0, 1))
	commit("commit an offset again", committer, -1, "", 1, 2)
	outcome.Of("leave as nobody")(client.LeaveGroup(background, &kafka.LeaveGroupRequest{
		GroupID: group, Members: []kafka.LeaveGroupRequestMember{{ID: "nobody"}},
	}))
	outcome.Of("heartbeat as nobody")(client.Heartbeat(background, &kafka.HeartbeatRequest{
		GroupID: group, GenerationID: 1, MemberID: "nobody",
	}))
	listed, err := client.ListGroups(background, &kafka.ListGroupsRequest{})
	if err == nil {
		kept := listed.Groups[:0]
		for _, each := range listed.Groups {
			if strings.HasPrefix(each.GroupID, "kafka-go-") {
				kept = append(kept, each)
			}
		}
		listed.Groups = kept
	}
	outcome.Of("list groups")(listed, err)
}

func describeGroups(ids ...string) (*kafka.DescribeGroupsResponse, error) {
	return client.DescribeGroups(background, &kafka.DescribeGroupsRequest{GroupIDs: ids})
}

func fetchOffsets(id, name string, partitions ...int) (*kafka.OffsetFetchResponse, error) {
	return client.OffsetFetch(background, &kafka.OffsetFetchRequest{
		GroupID: id, Topics: map[string][]int{name: partitions},
	})
}

// readAll reads so many messages in a group of one member and commits each.
func readAll(name string, count int) []string {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:               []string{brokerAddress},
		GroupID:               group,
		Topic:                 name,
		MaxWait:               100 * time.Millisecond,
		StartOffset:           kafka.FirstOffset,
		WatchPartitionChanges: true,
	})
	defer reader.Close()
	limited, cancel := context.WithTimeout(background, timeout)
	defer cancel()
	read := []string{}
	described := false
	for len(read) < count {
		message, err := reader.ReadMessage(limited)
		if err != nil {
			return append(read, err.Error())
		}
		if !described {
			outcome.Of("describe a group with a member")(describeGroups(group))
			outcome.Of("delete a group with a member")(client.DeleteGroups(background,
				&kafka.DeleteGroupsRequest{GroupIDs: []string{group}}))
			described = true
		}
		headers := []string{}
		for _, each := range message.Headers {
			headers = append(headers, fmt.Sprintf("%s=%s", each.Key, each.Value))
		}
		read = append(read, fmt.Sprintf("%d %02d %s %s %v %d", message.Partition, message.Offset,
			message.Key, message.Value, headers, message.Time.UnixMilli()))
	}
	sort.Strings(read)
	return read
}

func transactions() {
	begin := func(call string, id string, limitMs int) *kafka.ProducerSession {
		session := &kafka.ProducerSession{}
		outcome.Until(call,
			func(found *kafka.InitProducerIDResponse) bool { return !isTemporary(found.Error) },
			func() (*kafka.InitProducerIDResponse, error) {
				answer, err := client.InitProducerID(background, &kafka.InitProducerIDRequest{
					TransactionalID: id, TransactionTimeoutMs: limitMs,
					ProducerID: -1, ProducerEpoch: -1,
				})
				if err == nil && answer.Producer != nil {
					session = answer.Producer
				}
				return answer, err
			})
		return session
	}
	begin("init a producer id with a timeout that is too long", transactional, 1<<30)
	fenced := begin("init a producer id", transactional, 60_000)
	session := begin("init a producer id again", transactional, 60_000)
	// Kafka writes the markers after it has answered the end of a transaction: until then what
	// comes next is to be tried again. So is what this broker could not tell from a request of the
	// transaction before, as kafka-go takes any connection of its pool.
	add := func(session *kafka.ProducerSession) func() (*kafka.AddPartitionsToTxnResponse, error) {
		return func() (*kafka.AddPartitionsToTxnResponse, error) {
			return client.AddPartitionsToTxn(background, &kafka.AddPartitionsToTxnRequest{
				TransactionalID: transactional,
				ProducerID:      session.ProducerID, ProducerEpoch: session.ProducerEpoch,
				Topics: map[string][]kafka.AddPartitionToTxn{transacted: {{Partition: 0}}},
			})
		}
	}
	added := func(found *kafka.AddPartitionsToTxnResponse) bool {
		return !isTemporary(found.Topics[transacted][0].Error)
	}
	commit := func(
		session *kafka.ProducerSession, offset int64,
	) (*kafka.TxnOffsetCommitResponse, error) {
		return client.TxnOffsetCommit(background, &kafka.TxnOffsetCommitRequest{
			TransactionalID: transactional, GroupID: inTransaction,
			ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch,
			GenerationID: -1,
			Topics: map[string][]kafka.TxnOffsetCommit{
				topic: {{Partition: 0, Offset: offset}},
			},
		})
	}
	ended := func(found *kafka.EndTxnResponse) bool { return !isTemporary(found.Error) }
	for number, committed := range []bool{true, false} {
		with := func(call string) string { return fmt.Sprintf("%s, committed %t", call, committed) }
		outcome.Until(with("add partitions"), added, add(session))
		outcome.Of(with("add partitions of a fenced producer"))(add(fenced)())
		outcome.Of(with("add offsets"))(client.AddOffsetsToTxn(background, &kafka.AddOffsetsToTxnRequest{
			TransactionalID: transactional, GroupID: inTransaction,
			ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch,
		}))
		outcome.Until(with("commit offsets"),
			func(found *kafka.TxnOffsetCommitResponse) bool {
				return !isTemporary(found.Topics[topic][0].Error)
			},
			func() (*kafka.TxnOffsetCommitResponse, error) { return commit(session, int64(5+number)) })
		outcome.Until(with("end"), ended,
			func() (*kafka.EndTxnResponse, error) { return end(session, committed) })
		outcome.Until(with("end again"), ended,
			func() (*kafka.EndTxnResponse, error) { return end(session, committed) })
		outcome.Of(with("end the other way"))(end(session, !committed))
		outcome.Of(with("end as a fenced producer"))(end(fenced, committed))
		outcome.Until(with("fetch offsets"),
			func(found *kafka.OffsetFetchResponse) bool {
				return found.Topics[topic][0].CommittedOffset == 5
			},
			func() (*kafka.OffsetFetchResponse, error) { return fetchOffsets(inTransaction, topic, 0) })
	}
	unknown := &kafka.ProducerSession{ProducerID: 123_456, ProducerEpoch: 3}
	outcome.Of("add partitions of no producer")(add(unknown)())
	outcome.Of("end of no producer")(end(unknown, true))
}

// isTemporary tells whether a call of a transaction should be tried again.
func isTemporary(err error) bool {
	return errors.Is(err, kafka.ConcurrentTransactions) ||
		errors.Is(err, kafka.GroupLoadInProgress)
}

func end(session *kafka.ProducerSession, committed bool) (*kafka.EndTxnResponse, error) {
	return client.EndTxn(background, &kafka.EndTxnRequest{
		TransactionalID: transactional, Committed: committed,
		ProducerID: session.ProducerID, ProducerEpoch: session.ProducerEpoch,
	})
}

func security() {
	outcome.Of("create acls")(client.CreateACLs(background, &kafka.CreateACLsRequest{
		ACLs: []kafka.ACLEntry{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			ResourcePatternType: kafka.PatternTypeLiteral, Principal: "User:kafka-go", Host: "*",
			Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
		}},
	}))
	outcome.Of("describe acls")(client.DescribeACLs(background, &kafka.DescribeACLsRequest{
		Filter: kafka.ACLFilter{
			ResourceTypeFilter:        kafka.ResourceTypeTopic,
			ResourcePatternTypeFilter: kafka.PatternTypeAny,
			Operation:                 kafka.ACLOperationTypeAny,
			PermissionType:            kafka.ACLPermissionTypeAny,
		},
	}))
	outcome.Of("delete acls")(client.DeleteACLs(background, &kafka.DeleteACLsRequest{
		Filters: []kafka.DeleteACLsFilter{{
			ResourceTypeFilter:        kafka.ResourceTypeTopic,
			ResourcePatternTypeFilter: kafka.PatternTypeAny,
			Operation:                 kafka.ACLOperationTypeAny,
			PermissionType:            kafka.ACLPermissionTypeAny,
		}},
	}))
	outcome.Of("describe all scram credentials")(client.DescribeUserScramCredentials(background,
		&kafka.DescribeUserScramCredentialsRequest{}))
	outcome.Of("describe scram credentials of a user")(client.DescribeUserScramCredentials(background,
		&kafka.DescribeUserScramCredentialsRequest{
			Users: []kafka.UserScramCredentialsUser{{Name: "nobody"}},
		}))
	outcome.Of("describe client quotas")(client.DescribeClientQuotas(background,
		&kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{
				{EntityType: "client-id", MatchType: 0, Match: "kafka-go"},
			},
		}))
}

func removal() {
	outcome.Of("delete groups")(client.DeleteGroups(background, &kafka.DeleteGroupsRequest{
		GroupIDs: []string{group, committer, inTransaction, missing},
	}))
	outcome.Of("delete topics")(client.DeleteTopics(background, &kafka.DeleteTopicsRequest{
		Topics: []string{topic, written, transacted, missing},
	}))
	outcome.Until("metadata of what was deleted",
		func(found *kafka.MetadataResponse) bool { return !settled(found) },
		func() (*kafka.MetadataResponse, error) { return metadata(written) })
}
