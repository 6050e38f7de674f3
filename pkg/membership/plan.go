package membership

import (
	"maps"
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// Holder is the member that holds a pod partition, and its epoch.
type Holder struct {
	Member string
	Epoch  int64
}

// Snapshot is the part of the ledger that a Keeper needs, at one revision.
type Snapshot struct {
	Revision int64
	// Holders are by partition; a vacant partition is not in the map.
	Holders map[int32]Holder
	// Members are the ids of the live shards.
	Members []string
	// Wanted assigns some partitions to members by name (roster.WantPartitions); an entry for a member that is not
	// alive is ignored.
	Wanted map[int32]string
}

// SnapshotOf copies the Snapshot from a view; it must be called from the goroutine that owns the view.
func SnapshotOf(v *replica.View, role string) Snapshot {
	p := Snapshot{Revision: v.Revision(), Holders: make(map[int32]Holder, ledger.Partitions)}
	for partition := range v.Roster().Owners() {
		owner, epoch, _ := v.Roster().Owner(partition)
		p.Holders[partition] = Holder{Member: owner.Member, Epoch: epoch}
	}
	for _, m := range v.Roster().Members(role) {
		p.Members = append(p.Members, m.ID)
	}
	p.Wanted = maps.Collect(v.Roster().Wanted())
	return p
}

// Desired returns the pod partitions that self should hold while members are alive, ascending: those assigned to it
// by name, and of the others those that are its own by hash. Self counts as alive.
func Desired(members []string, wanted map[int32]string, self string) []int32 {
	if !slices.Contains(members, self) {
		members = append(slices.Clip(members), self)
	}
	var mine []int32
	for p := range int32(ledger.Partitions) {
		m, named := wanted[p]
		if !named || !slices.Contains(members, m) {
			m = Home(members, strconv.Itoa(int(p)))
		}
		if m == self {
			mine = append(mine, p)
		}
	}
	return mine
}

// PlanPartitions returns the vacant partitions that self should take, and those of its own that it should release
// to another of the given members, both ascending. A partition that another member holds is left alone: either that
// member releases it, or its lease expires.
func PlanPartitions(snapshot Snapshot, members []string, self string) (take, release []int32) {
	mine := map[int32]struct{}{}
	for _, p := range Desired(members, snapshot.Wanted, self) {
		mine[p] = struct{}{}
	}
	for p := range int32(ledger.Partitions) {
		holder, held := snapshot.Holders[p]
		_, want := mine[p]
		switch {
		case want && !held:
			take = append(take, p)
		case !want && held && holder.Member == self:
			release = append(release, p)
		}
	}
	return take, release
}
