// franz-go: its admin client kadm, its producers and a consumer group against the broker that is
// named.
//
//	franz 127.0.0.1:9092
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/interop/outcome"
)

const (
	topic         = "franz-records"
	transacted    = "franz-transactions"
	missing       = "franz-missing"
	group         = "franz-readers"
	inTransaction = "franz-in-transactions"
	transactional = "franz"
	perCodec      = 10
	timeout       = 30 * time.Second
)

var (
	address    string
	admin      *kadm.Client
	background = context.Background()
	start      = time.UnixMilli(1_700_000_000_000)
)

func main() {
	outcome.Name = func(err error) string {
		var known *kerr.Error
		if errors.As(err, &known) {
			return known.Message
		}
		return ""
	}
	address = os.Args[1]
	client := open(kgo.MetadataMinAge(50 * time.Millisecond))
	admin = kadm.NewClient(client)
	topics()
	configs()
	partitions()
	produce()
	transactions()
	groups()
	offsets()
	security()
	removal()
	client.Close()
}

func open(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(address), kgo.ClientID("franz-interop"))
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return client
}

func topics() {
	create := func(
		call string, partitions int32, replicas int16, config map[string]*string, names ...string,
	) {
		outcome.Of(call)(admin.CreateTopics(background, partitions, replicas, config, names...))
	}
	create("create a topic", 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic)
	create("create topics with defaults", -1, -1, nil, topic, transacted)
	create("create with a bad name", 1, 1, nil, "franz/bad")
	create("create with too many replicas", 1, 2, nil, missing)
	create("create without partitions", 0, 1, nil, missing)
	create("create with a bad setting", 1, 1,
		map[string]*string{"retention.ms": kadm.StringPtr("soon")}, missing)
	outcome.Of("validate topics")(
		admin.ValidateCreateTopics(background, 1, 1, nil, missing, "franz/bad"))
	outcome.Until("metadata", settled(2, 1), describe(topic, transacted))
	outcome.Of("metadata of no topic")(describe(missing)())
	listed, err := admin.ListTopics(background)
	listed.FilterInternal()
	names := []string{}
	for _, name := range listed.Names() {
		if strings.HasPrefix(name, "franz-") {
			names = append(names, name)
		}
	}
	outcome.Of("list topics")(names, err)
	brokers, err := admin.ListBrokers(background)
	outcome.Of("list brokers")(brokers.NodeIDs(), err)
	// A broker creates the topics of its coordinators when they are asked for.
	found := func(answer kadm.FindCoordinatorResponses) bool { return answer.Error() == nil }
	outcome.Until("find coordinators of groups", found,
		func() (kadm.FindCoordinatorResponses, error) {
			return admin.FindGroupCoordinators(background, group, "franz-others"), nil
		})
	outcome.Until("find coordinators of transactions", found,
		func() (kadm.FindCoordinatorResponses, error) {
			return admin.FindTxnCoordinators(background, transactional), nil
		})
}

func describe(names ...string) func() (kadm.Metadata, error) {
	return func() (kadm.Metadata, error) { return admin.Metadata(background, names...) }
}

// settled tells whether the topics have so many partitions, in the order of their names.
func settled(counts ...int) func(kadm.Metadata) bool {
	return func(found kadm.Metadata) bool {
		sorted := found.Topics.Sorted()
		for index, each := range sorted {
			if each.Err != nil || len(each.Partitions) != counts[index] {
				return false
			}
			for _, partition := range each.Partitions {
				if partition.Err != nil {
					return false
				}
			}
		}
		return len(sorted) == len(counts)
	}
}

func configs() {
	ask := func(names ...string) func() (kadm.ResourceConfigs, error) {
		return func() (kadm.ResourceConfigs, error) {
			return admin.DescribeTopicConfigs(background, names...)
		}
	}
	outcome.Of("describe topic configs")(ask(topic, missing)())
	alter := func(call, name string, configs ...kadm.AlterConfig) {
		outcome.Of(call)(admin.AlterTopicConfigs(background, configs, name))
	}
	change := func(operation kadm.IncrementalOp, name, value string) kadm.AlterConfig {
		return kadm.AlterConfig{Op: operation, Name: name, Value: kadm.StringPtr(value)}
	}
	alter("alter topic configs", topic,
		change(kadm.SetConfig, "max.message.bytes", "12345"),
		change(kadm.AppendConfig, "cleanup.policy", "compact"))
	outcome.Until("describe topic configs that were altered", isSet("12345"), ask(topic))
	alter("delete and subtract", topic,
		kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "max.message.bytes"},
		change(kadm.SubtractConfig, "cleanup.policy", "compact"))
	alter("append to what is no list", topic, change(kadm.AppendConfig, "retention.ms", "1"))
	alter("set a bad value", topic, change(kadm.SetConfig, "retention.ms", "soon"))
	alter("set what does not exist", topic, change(kadm.SetConfig, "no.such", "1"))
	alter("alter configs of no topic", missing, change(kadm.SetConfig, "retention.ms", "1"))
	outcome.Of("validate topic configs")(admin.ValidateAlterTopicConfigs(background,
		[]kadm.AlterConfig{change(kadm.SetConfig, "retention.ms", "soon")}, topic))
	outcome.Of("replace topic configs")(admin.AlterTopicConfigsState(background,
		[]kadm.AlterConfig{change(kadm.SetConfig, "retention.ms", "-1")}, topic))
	outcome.Of("replace topic configs with a bad one")(admin.AlterTopicConfigsState(background,
		[]kadm.AlterConfig{change(kadm.SetConfig, "retention.ms", "soon")}, topic))
	outcome.Of("alter broker configs with a bad one")(admin.AlterBrokerConfigs(background,
		[]kadm.AlterConfig{change(kadm.SetConfig, "log.retention.ms", "soon")}, 1))
}

func isSet(value string) func(kadm.ResourceConfigs) bool {
	return func(found kadm.ResourceConfigs) bool {
		for _, entry := range found[0].Configs {
			if entry.MaybeValue() == value {
				return true
			}
		}
		return false
	}
}

func partitions() {
	outcome.Of("validate partitions")(
		admin.ValidateUpdatePartitions(background, 3, topic, missing))
	outcome.Of("update partitions")(admin.UpdatePartitions(background, 3, topic))
	outcome.Of("update to fewer partitions")(admin.UpdatePartitions(background, 1, topic))
	outcome.Until("metadata of three partitions", settled(3), describe(topic))
	assign := func(call, name string, partition int32, brokers []int32) {
		var request kadm.AlterPartitionAssignmentsReq
		request.Assign(name, partition, brokers)
		outcome.Of(call)(admin.AlterPartitionAssignments(background, request))
	}
	assign("assign to the same broker", topic, 0, []int32{1})
	assign("assign to a missing broker", topic, 0, []int32{1, 7})
	assign("assign to a broker twice", topic, 0, []int32{1, 1})
	assign("cancel no assignment", topic, 0, nil)
	assign("assign no partition", topic, 9, []int32{1})
	assign("assign no topic", missing, 0, []int32{1})
	outcome.Of("list reassignments")(
		admin.ListPartitionReassignments(background, set(topic, 0, 1)))
	elect := func(call string, how kadm.ElectLeadersHow, of kadm.TopicsSet) {
		outcome.Of(call)(admin.ElectLeaders(background, how, of))
	}
	elect("elect preferred leaders", kadm.ElectPreferredReplica, set(topic, 0, 9))
	elect("elect live leaders", kadm.ElectLiveReplica, set(topic, 0))
	elect("elect leaders of no topic", kadm.ElectPreferredReplica, set(missing, 0))
}

func set(name string, partitions ...int32) kadm.TopicsSet {
	var found kadm.TopicsSet
	found.Add(name, partitions...)
	return found
}

// record returns a record whose key and time follow from a number.
func record(to string, number int) *kgo.Record {
	return &kgo.Record{
		Topic:     to,
		Key:       fmt.Appendf(nil, "key %d", number),
		Value:     fmt.Appendf(nil, "value %d", number),
		Headers:   []kgo.RecordHeader{{Key: "of", Value: []byte("franz-go")}},
		Timestamp: start.Add(time.Duration(number) * time.Millisecond),
	}
}

func told(record *kgo.Record) string {
	headers := []string{}
	for _, each := range record.Headers {
		headers = append(headers, fmt.Sprintf("%s=%s", each.Key, each.Value))
	}
	return fmt.Sprintf("%s %d %03d %s %s %v %d", record.Topic, record.Partition, record.Offset,
		record.Key, record.Value, headers, record.Timestamp.UnixMilli())
}

func produce() {
	codecs := []struct {
		name  string
		codec kgo.CompressionCodec
	}{
		{"none", kgo.NoCompression()},
		{"gzip", kgo.GzipCompression()},
		{"snappy", kgo.SnappyCompression()},
		{"lz4", kgo.Lz4Compression()},
		{"zstd", kgo.ZstdCompression()},
	}
	for index, each := range codecs {
		client := open(kgo.ProducerBatchCompression(each.codec))
		records := make([]*kgo.Record, perCodec)
		for number := range records {
			records[number] = record(topic, perCodec*index+number)
		}
		outcome.OfError("produce, "+each.name, client.ProduceSync(background, records...).FirstErr())
		client.Close()
	}
	client := open(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.ProducerBatchMaxBytes(5_000_000), kgo.BrokerMaxWriteBytes(50_000_000),
		kgo.UnknownTopicRetries(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	outcome.OfError("produce without idempotence",
		client.ProduceSync(background, record(transacted, 99)).FirstErr())
	large := record(topic, 0)
	large.Value = make([]byte, 2_000_000)
	outcome.OfError("produce what is too large", client.ProduceSync(background, large).FirstErr())
	outcome.OfError("produce to no topic",
		client.ProduceSync(background, record(missing, 0)).FirstErr())
	client.Close()
}

func transactions() {
	// The session reads, writes and commits what it has read, all in transactions.
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(address), kgo.ClientID("franz-interop"),
		kgo.TransactionalID(transactional), kgo.TransactionTimeout(timeout),
		kgo.ConsumerGroup(inTransaction), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		outcome.OfError("open a session", err)
		return
	}
	limited, cancel := context.WithTimeout(background, timeout)
	defer cancel()
	commits := []bool{true, false, true}
	for number, commit := range commits {
		with := func(call string) string { return fmt.Sprintf("%s, transaction %d", call, number) }
		outcome.OfError(with("poll"), session.PollRecords(limited, 5).Err())
		outcome.OfError(with("begin"), session.Begin())
		outcome.OfError(with("produce"),
			session.ProduceSync(limited, record(transacted, number)).FirstErr())
		if number == 0 {
			describeTransaction(limited)
		}
		outcome.Of(with("end"))(session.End(limited, kgo.TransactionEndTry(commit)))
	}
	session.Close()
	outcome.Until("describe transactions that were completed",
		func(found kadm.DescribedTransactions) bool {
			return found[transactional].State == "CompleteCommit"
		},
		func() (kadm.DescribedTransactions, error) {
			return admin.DescribeTransactions(background, transactional, missing)
		})
	committed, err := admin.FetchOffsets(background, inTransaction)
	sum := int64(0)
	committed.Each(func(each kadm.OffsetResponse) { sum += each.At })
	outcome.Of("sum of the offsets of the transactions")(sum, err)

	zombie, newer := transactionalClient(), transactionalClient()
	outcome.OfError("begin", zombie.BeginTransaction())
	outcome.OfError("produce", zombie.ProduceSync(limited, record(transacted, 7)).FirstErr())
	outcome.OfError("begin as a newer producer", newer.BeginTransaction())
	outcome.OfError("produce as a newer producer",
		newer.ProduceSync(limited, record(transacted, 8)).FirstErr())
	outcome.OfError("produce as a fenced producer",
		zombie.ProduceSync(limited, record(transacted, 9)).FirstErr())
	outcome.OfError("commit as a fenced producer", zombie.EndTransaction(limited, kgo.TryCommit))
	outcome.OfError("commit as a newer producer", newer.EndTransaction(limited, kgo.TryCommit))
	zombie.Close()
	newer.Close()
}

func transactionalClient() *kgo.Client {
	return open(kgo.TransactionalID("franz-fenced"), kgo.TransactionTimeout(timeout))
}

func describeTransaction(limited context.Context) {
	outcome.Of("describe a transaction")(admin.DescribeTransactions(limited, transactional))
	listed, err := admin.ListTransactions(limited, nil, []string{"Ongoing"})
	outcome.Of("list transactions")(listed[transactional], err)
	producers, err := admin.DescribeProducers(limited, set(transacted, 0))
	outcome.Of("describe producers")(producers.SortedProducers(), err)
}

func groups() {
	consumer := open(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic, transacted),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	limited, cancel := context.WithTimeout(background, timeout)
	defer cancel()
	read := []string{}
	for len(read) < 5*perCodec+4 && limited.Err() == nil {
		consumer.PollFetches(limited).EachRecord(func(each *kgo.Record) {
			read = append(read, told(each))
		})
	}
	sort.Strings(read)
	outcome.Print("read in a group", read)
	outcome.Of("describe a group with a member")(describeGroups(group))
	outcome.Of("delete a group with a member")(admin.DeleteGroup(background, group))
	outcome.OfError("commit", consumer.CommitUncommittedOffsets(limited))
	lags, err := admin.Lag(background, group)
	outcome.Of("lag")(lags[group].Lag.Total(), err)
	consumer.Close()

	outcome.Until("describe groups",
		func(found []any) bool { return strings.Contains(fmt.Sprint(found), "Empty") },
		func() ([]any, error) { return describeGroups(group, missing) })
	list := func(call string, states ...string) {
		listed, err := admin.ListGroups(background, states...)
		for each := range listed {
			if !strings.HasPrefix(each, "franz-") {
				delete(listed, each)
			}
		}
		outcome.Of(call)(listed, err)
	}
	list("list groups")
	list("list stable groups", "Stable")
	outcome.Of("fetch offsets")(admin.FetchOffsets(background, group))
	outcome.Of("fetch offsets for a topic")(admin.FetchOffsetsForTopics(background, group, topic))
	outcome.Of("fetch offsets of no group")(admin.FetchOffsets(background, missing))
	outcome.Print("fetch offsets of several groups",
		admin.FetchManyOffsets(background, group, inTransaction, missing)[group])
	var changed kadm.Offsets
	changed.AddOffset(topic, 0, 2, -1)
	changed.AddOffset(topic, 9, 2, -1)
	outcome.Of("commit offsets")(admin.CommitOffsets(background, group, changed))
	outcome.Of("delete offsets")(admin.DeleteOffsets(background, group, set(topic, 1)))
	outcome.Of("delete offsets of no group")(
		admin.DeleteOffsets(background, missing, set(topic, 1)))
	outcome.Of("fetch offsets that were changed")(admin.FetchOffsets(background, group))
	outcome.Of("leave as nobody")(admin.LeaveGroup(background,
		kadm.LeaveGroup(group).InstanceIDs("nobody")))
}

func describeGroups(ids ...string) ([]any, error) {
	found, err := admin.DescribeGroups(background, ids...)
	answer := []any{}
	for _, each := range found.Sorted() {
		members := []any{}
		for _, member := range each.Members {
			assigned, _ := member.Assigned.AsConsumer()
			partitions := []string{}
			if assigned != nil {
				for _, of := range assigned.Topics {
					partitions = append(partitions, fmt.Sprint(of.Topic, of.Partitions))
				}
			}
			sort.Strings(partitions)
			members = append(members, map[string]any{
				"client": member.ClientID, "assigned": partitions,
			})
		}
		answer = append(answer, map[string]any{
			"group": each.Group, "error": each.Err, "state": each.State,
			"type": each.ProtocolType, "protocol": each.Protocol, "members": members,
			"coordinator": each.Coordinator.NodeID,
		})
	}
	return answer, err
}

func offsets() {
	outcome.Of("list start offsets")(admin.ListStartOffsets(background, topic, missing))
	outcome.Of("list end offsets")(admin.ListEndOffsets(background, topic, transacted))
	outcome.Of("list committed offsets")(admin.ListCommittedOffsets(background, topic, transacted))
	outcome.Of("list offsets after a time")(
		admin.ListOffsetsAfterMilli(background, start.UnixMilli()+25, topic))
	outcome.Of("list offsets of the largest time")(admin.ListMaxTimestampOffsets(background, topic))
	outcome.Of("list local offsets")(admin.ListLocalLogStartOffsets(background, topic))
	outcome.Of("list remote offsets")(admin.ListLatestRemoteOffsets(background, topic))
	var epochs kadm.OffsetForLeaderEpochRequest
	epochs.Add(topic, 0, 0)
	outcome.Of("offset for a leader epoch")(admin.OffsetForLeaderEpoch(background, epochs))
	remove := func(call string, partition int32, offset int64) {
		var until kadm.Offsets
		until.AddOffset(topic, partition, offset, -1)
		outcome.Of(call)(admin.DeleteRecords(background, until))
	}
	remove("delete records", 0, 3)
	remove("delete records beyond the end", 0, 1000)
	remove("delete all records", 1, -1)
	outcome.Of("list start offsets of the rest")(admin.ListStartOffsets(background, topic))
	dirs, err := admin.DescribeAllLogDirs(background, set(topic, 0, 1, 2))
	partitions := []string{}
	dirs.Each(func(dir kadm.DescribedLogDir) {
		dir.Topics.Each(func(each kadm.DescribedLogDirPartition) {
			partitions = append(partitions,
				fmt.Sprintf("%s %d %t", each.Topic, each.Partition, each.IsFuture))
		})
	})
	sort.Strings(partitions)
	outcome.Of("describe log dirs")(partitions, err)
}

func security() {
	acls := kadm.NewACLs().Topics(topic).Allow("User:franz").AllowHosts("*").
		Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	outcome.Of("create acls")(admin.CreateACLs(background, acls))
	outcome.Of("describe acls")(admin.DescribeACLs(background, acls))
	outcome.Of("delete acls")(admin.DeleteACLs(background, acls))
	outcome.Of("describe all scram credentials")(admin.DescribeUserSCRAMs(background))
	outcome.Of("describe scram credentials")(admin.DescribeUserSCRAMs(background, "nobody"))
	outcome.Of("describe client quotas")(admin.DescribeClientQuotas(background, false,
		[]kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: kadm.StringPtr("franz")}}))
	outcome.Of("describe delegation tokens")(admin.DescribeDelegationTokens(background))
	outcome.Of("update a feature that is none")(admin.UpdateFeatures(background, false,
		kadm.FeatureUpdate{Feature: "no.such.feature", MaxVersionLevel: 1}))
	resources, err := admin.ListConfigResources(background, kmsg.ConfigResourceTypeTopic)
	names := []string{}
	for _, each := range resources.Resources {
		if strings.HasPrefix(each.Name, "franz-") {
			names = append(names, each.Name)
		}
	}
	outcome.Of("list config resources")(names, err)
}

func removal() {
	outcome.Of("delete groups")(admin.DeleteGroups(background, group, inTransaction, missing))
	outcome.Of("delete topics")(admin.DeleteTopics(background, topic, transacted, missing))
	outcome.Until("metadata of what was deleted",
		func(found kadm.Metadata) bool { return found.Topics[topic].Err != nil }, describe(topic))
}
