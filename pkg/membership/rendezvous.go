package membership

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// BinderPartitions is the number of partitions by which decisions are spread over the binders.
const BinderPartitions = 64

// BinderPartition returns the binder partition of a pod, 0 to BinderPartitions-1.
func BinderPartition(podUID string) int32 {
	return int32(xxhash.Sum64String(podUID) % BinderPartitions)
}

// Home returns the member that a key (a node's UID, a partition's number) belongs to: the one with the highest hash
// of member and key (rendezvous hashing, Thaler and Ravishankar 1996). It depends on the set of members alone, not
// on their order; "" without members.
func Home(members []string, key string) string {
	best, bestScore := "", uint64(0)
	var d xxhash.Digest
	for _, m := range members {
		d.Reset()
		// A Digest's writes never fail. The separator keeps ("ab", "c") apart from ("a", "bc").
		_, _ = d.WriteString(m)
		_, _ = d.WriteString("\x00")
		_, _ = d.WriteString(key)
		score := d.Sum64()
		if best == "" || score > bestScore || (score == bestScore && m < best) {
			best, bestScore = m, score
		}
	}
	return best
}

// Assign spreads partitions 0 to n-1 over members; each member's are in ascending order. A member that joins or
// leaves moves only the partitions that it gains or loses.
func Assign(members []string, n int) map[string][]int32 {
	out := make(map[string][]int32, len(members))
	if len(members) == 0 {
		return out
	}
	for p := range n {
		m := Home(members, strconv.Itoa(p))
		out[m] = append(out[m], int32(p))
	}
	return out
}
