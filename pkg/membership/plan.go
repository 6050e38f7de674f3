package membership

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Holder is who holds a pod partition, and under which epoch.
type Holder struct {
	Member string
	Epoch  int64
}

// Picture is what a Keeper needs to know of the ledger, at one revision.
type Picture struct {
	Revision int64
	// Holders by partition; a partition that nobody holds is not in it.
	Holders map[int32]Holder
	// Members are the ids of the live shards.
	Members []string
}

// PictureOf takes it from a view; call it from the goroutine that owns the view.
func PictureOf(v *ledger.View, role string) Picture {
	p := Picture{Revision: v.Revision(), Holders: make(map[int32]Holder, ledger.Partitions)}
	for partition := range v.Owners() {
		owner, epoch, _ := v.Owner(partition)
		p.Holders[partition] = Holder{Member: owner.Member, Epoch: epoch}
	}
	for _, m := range v.Members(role) {
		p.Members = append(p.Members, m.ID)
	}
	return p
}

// Desired are the pod partitions that self should hold when members are alive, ascending.
// Self counts as alive.
func Desired(members []string, self string) []int32 {
	if !slices.Contains(members, self) {
		members = append(slices.Clip(members), self)
	}
	return Assign(members, ledger.Partitions)[self]
}

// PlanPartitions says which vacant partitions self should take, and which of its own it
// should leave to another member, both ascending. A partition that another member holds is
// left alone: either that member gives it up, or its lease does.
func PlanPartitions(holders map[int32]Holder, members []string, self string) (take, release []int32) {
	mine := map[int32]struct{}{}
	for _, p := range Desired(members, self) {
		mine[p] = struct{}{}
	}
	for p := range int32(ledger.Partitions) {
		holder, held := holders[p]
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
