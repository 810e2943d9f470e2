// sarama: its ClusterAdmin, producers and a consumer group against the broker that is named.
//
//	sarama 127.0.0.1:9092
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"odradek/interop/outcome"
)

const (
	topic         = "sarama-records"
	transacted    = "sarama-transactions"
	missing       = "sarama-missing"
	group         = "sarama-readers"
	inTransaction = "sarama-in-transactions"
	transactional = "sarama"
	perProducer   = 6
	timeout       = 30 * time.Second
)

var (
	addresses []string
	admin     sarama.ClusterAdmin
	start     = time.UnixMilli(1_700_000_000_000)
)

func main() {
	outcome.Name = name
	addresses = os.Args[1:2]
	opened, err := sarama.NewClusterAdmin(addresses, config())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	admin = opened
	topics()
	configs()
	partitions()
	count := produce()
	transactions()
	groups(count)
	security()
	removal()
	admin.Close()
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = "sarama-interop"
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 3
	config.Metadata.AllowAutoTopicCreation = false
	config.Metadata.Retry.Max = 1
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	return config
}

// name returns the codes in an error, with sarama's text for each.
func name(err error) string {
	var found []string
	var visit func(error)
	visit = func(err error) {
		if code, is := err.(sarama.KError); is {
			if code == sarama.ErrNoError {
				found = append(found, outcome.NoError)
				return
			}
			text, _, _ := strings.Cut(strings.TrimPrefix(code.Error(), "kafka server: "), ":")
			found = append(found, fmt.Sprintf("%d %s", int16(code), text))
			return
		}
		switch inner := err.(type) {
		case interface{ Unwrap() []error }:
			for _, each := range inner.Unwrap() {
				visit(each)
			}
		case interface{ Unwrap() error }:
			if unwrapped := inner.Unwrap(); unwrapped != nil {
				visit(unwrapped)
			}
		}
	}
	visit(err)
	sort.Strings(found)
	return strings.Join(found, ", ")
}

func text(value string) *string { return &value }

func topics() {
	create := func(call, name string, detail sarama.TopicDetail, validate bool) {
		outcome.OfError(call, admin.CreateTopic(name, &detail, validate))
	}
	one := sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}
	create("create a topic", topic, sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": text("-1")},
	}, false)
	create("create it again", topic, one, false)
	create("validate a topic", missing, one, true)
	create("create with an assignment", transacted, sarama.TopicDetail{
		NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignment: map[int32][]int32{0: {1}},
	}, false)
	create("create with a bad name", "sarama/bad", one, false)
	create("create with too many replicas", missing,
		sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 2}, false)
	create("create without partitions", missing,
		sarama.TopicDetail{NumPartitions: 0, ReplicationFactor: 1}, false)
	create("create with a bad setting", missing, sarama.TopicDetail{
		NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": text("soon")},
	}, false)
	outcome.Until("describe topics", settled(2, 1), describe(topic, transacted))
	outcome.Of("describe no topic")(describe(missing)())
	listed, err := admin.ListTopics()
	for each := range listed {
		if !strings.HasPrefix(each, "sarama-") {
			delete(listed, each)
		}
	}
	outcome.Of("list topics")(listed, err)
	brokers, controller, err := admin.DescribeCluster()
	ids := []int32{}
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	outcome.Of("describe cluster")(map[string]any{"brokers": ids, "controller": controller}, err)
}

func describe(names ...string) func() ([]*sarama.TopicMetadata, error) {
	return func() ([]*sarama.TopicMetadata, error) { return admin.DescribeTopics(names) }
}

// settled tells whether the topics have so many partitions, in the order of their names.
func settled(counts ...int) func([]*sarama.TopicMetadata) bool {
	return func(found []*sarama.TopicMetadata) bool {
		sort.Slice(found, func(a, b int) bool { return found[a].Name < found[b].Name })
		for index, each := range found {
			if each.Err != sarama.ErrNoError || len(each.Partitions) != counts[index] {
				return false
			}
			for _, partition := range each.Partitions {
				if partition.Err != sarama.ErrNoError {
					return false
				}
			}
		}
		return len(found) == len(counts)
	}
}

func configs() {
	ask := func(
		kind sarama.ConfigResourceType, name string, names ...string,
	) func() ([]sarama.ConfigEntry, error) {
		return func() ([]sarama.ConfigEntry, error) {
			return admin.DescribeConfig(
				sarama.ConfigResource{Type: kind, Name: name, ConfigNames: names})
		}
	}
	outcome.Of("describe config")(ask(sarama.TopicResource, topic, "retention.ms", "cleanup.policy")())
	outcome.Of("describe all config of a topic")(ask(sarama.TopicResource, topic)())
	outcome.Of("describe config of no topic")(ask(sarama.TopicResource, missing)())
	outcome.Of("describe config of a broker")(
		ask(sarama.BrokerResource, "1", "log.retention.ms", "message.max.bytes")())
	outcome.Of("describe configs with synonyms")(admin.DescribeConfigs(
		[]*sarama.ConfigResource{
			{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"max.message.bytes"}},
			{Type: sarama.TopicResource, Name: missing},
		},
		sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true},
	))
	type entries = map[string]sarama.IncrementalAlterConfigsEntry
	alter := func(call, name string, validate bool, changed entries) {
		outcome.OfError(call,
			admin.IncrementalAlterConfig(sarama.TopicResource, name, changed, validate))
	}
	set := func(value string) sarama.IncrementalAlterConfigsEntry {
		return sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: text(value),
		}
	}
	alter("validate config", topic, true, entries{"max.message.bytes": set("1")})
	alter("alter config by increments", topic, false, entries{"max.message.bytes": set("12345")})
	outcome.Until("describe config that was altered", has("12345"),
		ask(sarama.TopicResource, topic, "max.message.bytes", "retention.ms"))
	alter("delete config", topic, false, entries{
		"max.message.bytes": {Operation: sarama.IncrementalAlterConfigsOperationDelete},
	})
	alter("append to config that is no list", topic, false, entries{
		"retention.ms": {
			Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: text("1"),
		},
	})
	alter("set config to a bad value", topic, false, entries{"retention.ms": set("soon")})
	alter("set config of no topic", missing, false, entries{"retention.ms": set("1")})
	replace := func(call, name string, entries map[string]*string) {
		outcome.OfError(call, admin.AlterConfig(sarama.TopicResource, name, entries, false))
	}
	replace("alter config", topic, map[string]*string{"retention.ms": text("-1")})
	replace("alter config to a bad value", topic, map[string]*string{"retention.ms": text("soon")})
	replace("alter config of no topic", missing, map[string]*string{"retention.ms": text("1")})
}

func has(value string) func([]sarama.ConfigEntry) bool {
	return func(found []sarama.ConfigEntry) bool {
		for _, each := range found {
			if each.Value == value {
				return true
			}
		}
		return false
	}
}

func partitions() {
	outcome.OfError("validate partitions", admin.CreatePartitions(topic, 3, nil, true))
	outcome.OfError("create partitions", admin.CreatePartitions(topic, 3, nil, false))
	outcome.OfError("create fewer partitions", admin.CreatePartitions(topic, 1, nil, false))
	outcome.OfError("create partitions of no topic", admin.CreatePartitions(missing, 3, nil, false))
	outcome.Until("describe three partitions", settled(3), describe(topic))
	outcome.OfError("reassign to the same broker",
		admin.AlterPartitionReassignments(topic, [][]int32{{1}, {1}}))
	outcome.OfError("reassign to a missing broker",
		admin.AlterPartitionReassignments(topic, [][]int32{{1, 7}}))
	outcome.OfError("reassign no topic",
		admin.AlterPartitionReassignments(missing, [][]int32{{1}}))
	outcome.Of("list reassignments")(admin.ListPartitionReassignments(topic, []int32{0, 1}))
	elect := func(call string, kind sarama.ElectionType, asked map[string][]int32) {
		outcome.Of(call)(admin.ElectLeaders(kind, asked))
	}
	elect("elect preferred leaders", sarama.PreferredElection, map[string][]int32{topic: {0, 9}})
	elect("elect leaders uncleanly", sarama.UncleanElection, map[string][]int32{topic: {0}})
	elect("elect leaders of no topic", sarama.PreferredElection, map[string][]int32{missing: {0}})
}

// message returns a message whose key and time follow from a number.
func message(to string, number int) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{
		Topic:     to,
		Key:       sarama.StringEncoder(fmt.Sprintf("key %d", number)),
		Value:     sarama.StringEncoder(fmt.Sprintf("value %d", number)),
		Headers:   []sarama.RecordHeader{{Key: []byte("of"), Value: []byte("sarama")}},
		Timestamp: start.Add(time.Duration(number) * time.Millisecond),
	}
}

// produce writes with each compression, and returns how many messages that were.
func produce() int {
	written := 0
	for codec := sarama.CompressionNone; codec <= sarama.CompressionZSTD; codec++ {
		for _, idempotent := range []bool{false, true} {
			config := config()
			config.Producer.Compression = codec
			if idempotent {
				config.Producer.Idempotent = true
				config.Net.MaxOpenRequests = 1
			}
			call := fmt.Sprintf("send, %s, idempotent %t", codec, idempotent)
			producer, err := sarama.NewSyncProducer(addresses, config)
			if err != nil {
				outcome.OfError(call, err)
				continue
			}
			messages := make([]*sarama.ProducerMessage, perProducer)
			for number := range messages {
				messages[number] = message(topic, 10*written+number)
			}
			outcome.OfError(call, producer.SendMessages(messages))
			written += perProducer
			producer.Close()
		}
	}
	config := config()
	config.Producer.Retry.Max = 0
	config.Producer.MaxMessageBytes = 5_000_000
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		outcome.OfError("open a producer", err)
		return written
	}
	defer producer.Close()
	large := message(topic, 0)
	large.Value = sarama.ByteEncoder(make([]byte, 2_000_000))
	_, _, err = producer.SendMessage(large)
	outcome.OfError("send what is too large", err)
	_, _, err = producer.SendMessage(message(missing, 0))
	outcome.OfError("send to no topic", err)
	return written
}

func transactionalProducer() (sarama.SyncProducer, error) {
	config := config()
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = transactional
	config.Producer.Transaction.Retry.Backoff = 50 * time.Millisecond
	config.Net.MaxOpenRequests = 1
	return sarama.NewSyncProducer(addresses, config)
}

func transactions() {
	producer, err := transactionalProducer()
	if err != nil {
		outcome.OfError("open a transactional producer", err)
		return
	}
	for number, committed := range []bool{true, false, true} {
		with := func(call string) string { return fmt.Sprintf("%s, transaction %d", call, number) }
		outcome.OfError(with("begin"), producer.BeginTxn())
		_, offset, err := producer.SendMessage(message(transacted, number))
		outcome.Of(with("send"))(offset, err)
		offsets := map[string][]*sarama.PartitionOffsetMetadata{
			topic: {{Partition: 0, Offset: int64(3 + number), Metadata: text("noted")}},
		}
		outcome.OfError(with("add offsets"), producer.AddOffsetsToTxn(offsets, inTransaction))
		expected := int64(3)
		if committed {
			expected = int64(3 + number)
			outcome.OfError(with("commit"), producer.CommitTxn())
		} else {
			outcome.OfError(with("abort"), producer.AbortTxn())
		}
		outcome.Until(with("list offsets of the group"),
			func(found map[string]*sarama.OffsetFetchResponseGroup) bool {
				block := found[inTransaction].Blocks[topic][0]
				return block != nil && block.Offset == expected
			},
			func() (map[string]*sarama.OffsetFetchResponseGroup, error) {
				return groupOffsets(inTransaction, topic, 0)
			})
	}
	outcome.OfError("begin what a newer producer ends", producer.BeginTxn())
	_, _, err = producer.SendMessage(message(transacted, 7))
	outcome.OfError("send what a newer producer ends", err)
	newer, err := transactionalProducer()
	outcome.OfError("open a newer producer", err)
	_, _, err = producer.SendMessage(message(transacted, 8))
	outcome.OfError("send as a fenced producer", err)
	outcome.OfError("commit as a fenced producer", producer.CommitTxn())
	if newer != nil {
		newer.Close()
	}
	producer.Close()
}

func groupOffsets(
	id, name string, partitions ...int32,
) (map[string]*sarama.OffsetFetchResponseGroup, error) {
	return admin.ListConsumerGroupOffsetsBatch(
		map[string]map[string][]int32{id: {name: partitions}})
}

// reader collects messages until it has as many as it should.
type reader struct {
	count int
	done  context.CancelFunc
	mutex sync.Mutex
	read  []string
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		r.mutex.Lock()
		headers := []string{}
		for _, each := range message.Headers {
			headers = append(headers, fmt.Sprintf("%s=%s", each.Key, each.Value))
		}
		r.read = append(r.read, fmt.Sprintf("%s %d %03d %s %s %v %d", message.Topic,
			message.Partition, message.Offset, message.Key, message.Value, headers,
			message.Timestamp.UnixMilli()))
		session.MarkMessage(message, "")
		if len(r.read) == r.count {
			session.Commit()
			r.describe()
			r.done()
		}
		r.mutex.Unlock()
	}
	return nil
}

func (r *reader) describe() {
	outcome.Of("describe a group with a member")(describeGroups(group))
	outcome.OfError("delete a group with a member", admin.DeleteConsumerGroup(group))
	outcome.OfError("delete an offset of a group with a member",
		admin.DeleteConsumerGroupOffset(group, topic, 0))
}

func describeGroups(ids ...string) ([]any, error) {
	found, err := admin.DescribeConsumerGroups(ids)
	told := []any{}
	for _, each := range found {
		clients := []string{}
		for _, member := range each.Members {
			clients = append(clients, member.ClientId)
		}
		told = append(told, map[string]any{
			"group": each.GroupId, "error": each.Err, "state": each.State,
			"type": each.ProtocolType, "protocol": each.Protocol, "clients": clients,
		})
	}
	return told, err
}

func groups(count int) {
	consumer, err := sarama.NewConsumerGroup(addresses, group, config())
	if err != nil {
		outcome.OfError("open a consumer group", err)
		return
	}
	limited, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	handler := &reader{count: count + 2, done: cancel}
	for limited.Err() == nil {
		if err := consumer.Consume(limited, []string{topic, transacted}, handler); err != nil {
			outcome.OfError("consume", err)
			break
		}
	}
	outcome.OfError("close the consumer group", consumer.Close())
	sort.Strings(handler.read)
	outcome.Print("read in a group", handler.read)

	outcome.Of("describe groups")(describeGroups(group, missing))
	listed, err := admin.ListConsumerGroups()
	for each := range listed {
		if !strings.HasPrefix(each, "sarama-") {
			delete(listed, each)
		}
	}
	outcome.Of("list groups")(listed, err)
	outcome.Of("list offsets of a group")(groupOffsets(group, topic, 0, 1, 2))
	outcome.Of("list all offsets of a group")(admin.ListConsumerGroupOffsetsBatch(
		map[string]map[string][]int32{group: nil}))
	outcome.Of("list offsets of no group")(groupOffsets(missing, topic, 0))
	outcome.Of("alter offsets of a group")(admin.AlterConsumerGroupOffsets(group,
		map[string]map[int32]sarama.OffsetAndMetadata{
			topic: {0: {Offset: 2, Metadata: "noted", LeaderEpoch: -1}, 9: {Offset: 1, LeaderEpoch: -1}},
		}, nil))
	outcome.OfError("delete an offset", admin.DeleteConsumerGroupOffset(group, topic, 1))
	outcome.OfError("delete an offset of no group", admin.DeleteConsumerGroupOffset(missing, topic, 0))
	outcome.Of("list offsets that were altered")(groupOffsets(group, topic, 0, 1, 2))
	outcome.Of("remove a member that is none")(
		admin.RemoveMemberFromConsumerGroup(group, []string{"nobody"}))
	list := func(call string, at int64) {
		outcome.Of(call)(admin.ListOffsets(map[string]map[int32]int64{topic: {0: at, 1: at, 2: at}},
			&sarama.ListOffsetsOptions{IsolationLevel: sarama.ReadCommitted}))
	}
	list("list first offsets", sarama.OffsetOldest)
	list("list last offsets", sarama.OffsetNewest)
	list("list offsets at a time", start.UnixMilli()+65)
	outcome.OfError("delete records", admin.DeleteRecords(topic, map[int32]int64{0: 3}))
	outcome.OfError("delete records beyond the end", admin.DeleteRecords(topic, map[int32]int64{0: 1000}))
	list("list first offsets of the rest", sarama.OffsetOldest)
	logDirs()
}

func logDirs() {
	found, err := admin.DescribeLogDirs([]int32{1})
	told := map[string]int{}
	for _, dirs := range found {
		for _, dir := range dirs {
			for _, each := range dir.Topics {
				if strings.HasPrefix(each.Topic, "sarama-") {
					told[each.Topic] = len(each.Partitions)
				}
			}
		}
	}
	outcome.Of("describe log dirs")(told, err)
}

func security() {
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTopic, ResourceName: topic,
		ResourcePatternType: sarama.AclPatternLiteral,
	}
	acl := sarama.Acl{
		Principal: "User:sarama", Host: "*",
		Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow,
	}
	filter := sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	outcome.OfError("create an acl", admin.CreateACL(resource, acl))
	outcome.Of("list acls")(admin.ListAcls(filter))
	outcome.Of("delete acls")(admin.DeleteACL(filter, false))
	outcome.Of("describe scram credentials")(admin.DescribeUserScramCredentials([]string{"nobody"}))
	outcome.Of("describe all scram credentials")(admin.DescribeUserScramCredentials(nil))
	outcome.Of("describe client quotas")(admin.DescribeClientQuotas(
		[]sarama.QuotaFilterComponent{
			{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: "sarama"},
		}, false))
	outcome.Of("update a feature that is none")(admin.UpdateFeatures(
		[]sarama.FeatureUpdate{{Feature: "no.such.feature", MaxVersionLevel: 1}}))
}

func removal() {
	outcome.OfError("delete a group", admin.DeleteConsumerGroup(group))
	outcome.OfError("delete the group of transactions", admin.DeleteConsumerGroup(inTransaction))
	outcome.OfError("delete no group", admin.DeleteConsumerGroup(missing))
	outcome.OfError("delete a topic", admin.DeleteTopic(topic))
	outcome.OfError("delete another topic", admin.DeleteTopic(transacted))
	outcome.OfError("delete no topic", admin.DeleteTopic(missing))
	outcome.Until("describe what was deleted",
		func(found []*sarama.TopicMetadata) bool {
			return errors.Is(found[0].Err, sarama.ErrUnknownTopicOrPartition)
		}, describe(topic))
}
