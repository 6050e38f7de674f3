package roster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Owner names the holder of a pod partition: the value of own/<partition>. The key is attached to the member's
// lease. Its create revision is the epoch, which every transaction of that member about the partition's pods
// compares.
type Owner struct {
	// Member is the id of the holder.
	Member string
	// Incarnation is for a ledger that was restored from a backup; no member sets it so far.
	Incarnation uint64
	// Progress is the holder's applied progress when it last wrote the key, for human readers; no member sets it so
	// far.
	Progress uint64
}

// Member is a live process: the value of member/<role>/<id>, on the member's lease.
type Member struct {
	ID, Role string
	// Address is where the member serves HTTP, as host:port; empty when it serves none.
	Address string
	// Started is a time by the member's own wall clock (in milliseconds), for human readers.
	Started time.Time
	// Version is that of the software.
	Version string
}

// Keys of members and of the partitions that they own, relative to the cluster's prefix.
const (
	// PrefixOwn + partition (3 digits): Owner of that pod partition, on the member's lease.
	PrefixOwn = "own/"
	// PrefixWant + partition (3 digits): Owner, the member that should hold the partition instead of the one that
	// the hash of both selects. It grants nothing.
	PrefixWant = "want/"
	// PrefixMember + role + "/" + member id: Member, on the member's lease.
	PrefixMember = "member/"
)

// KeyOwn is the key of one partition's owner.
func KeyOwn(partition int32) string { return fmt.Sprintf("%s%03d", PrefixOwn, partition) }

// ParseOwn is the inverse of KeyOwn.
func ParseOwn(key string) (partition int32, ok bool) { return parsePartition(key, PrefixOwn) }

// KeyWant is the key that names the shard that should hold a partition.
func KeyWant(partition int32) string { return fmt.Sprintf("%s%03d", PrefixWant, partition) }

// ParseWant is the inverse of KeyWant.
func ParseWant(key string) (partition int32, ok bool) { return parsePartition(key, PrefixWant) }

func parsePartition(key, prefix string) (partition int32, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 31)
	if err != nil || n >= ledger.Partitions || len(rest) != 3 {
		return 0, false
	}
	return int32(n), true //nolint:gosec // below Partitions
}

// KeyMember is the key under which a member registers itself.
func KeyMember(role, id string) string { return PrefixMember + role + "/" + id }

// PrefixElection + name + "/" + candidate: one candidate of an election, on its lease. The
// oldest leads; its create revision is the term.
const PrefixElection = "election/"
