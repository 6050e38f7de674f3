package explore

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// long is the flag of all models; here it takes a larger jug.
var long = flag.Bool("long", false, "explore a larger model too")

// jugs is the riddle of two jugs without marks: how much each holds now, and how much it can hold.
type jugs struct{ has, room [2]uint8 }

func (j *jugs) next(step func(Step, jugs)) {
	for i, o := range []int{1, 0} {
		t := *j
		t.has[i] = t.room[i]
		step(Step{Text: "fill %d", A: uint8(i)}, t)
		t = *j
		t.has[i] = 0
		step(Step{Text: "empty %d", A: uint8(i)}, t)
		t = *j
		moved := min(t.has[i], t.room[o]-t.has[o])
		t.has[i], t.has[o] = t.has[i]-moved, t.has[o]+moved
		step(Step{Late: func() string { return fmt.Sprintf("pour %d into %d", i, o) }}, t)
	}
}

func compact(start jugs, until uint8, limit int) Compact[jugs] {
	return Compact[jugs]{
		Start: start, Limit: limit,
		Next: func(j *jugs, step func(Step, jugs)) { j.next(step) },
		Key:  func(j *jugs, buf []byte) []byte { return append(buf, j.has[:]...) },
		Broken: func(j *jugs) string {
			if until != 0 && j.has[1] == until {
				return fmt.Sprintf("%d measured", until)
			}
			return ""
		},
	}
}

func TestShortestHistory(t *testing.T) {
	got, err := RunCompact(compact(jugs{room: [2]uint8{3, 5}}, 4, 100))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"fill 1", "pour 1 into 0", "empty 0", "pour 1 into 0", "fill 1", "pour 1 into 0"}
	if diff := cmp.Diff(want, got.History); diff != "" || got.Broken != "4 measured" || got.Depth != len(want) {
		t.Errorf("%q at depth %d (-want +got):\n%s", got.Broken, got.Depth, diff)
	}
}

// TestBothVisitTheSame compares the two explorers on models that break nothing.
func TestBothVisitTheSame(t *testing.T) {
	rooms := [][2]uint8{{3, 5}, {4, 6}, {7, 9}, {1, 1}, {0, 3}}
	if *long {
		rooms = append(rooms, [2]uint8{250, 251})
	}
	for _, room := range rooms {
		start := jugs{room: room}
		got, err := RunCompact(compact(start, 0, 1_000_000))
		if err != nil {
			t.Fatal(err)
		}
		want, err := Run(Model[jugs]{
			Start: start, Limit: 1_000_000,
			Next: func(j jugs, step func(string, jugs)) {
				j.next(func(by Step, to jugs) { step(by.String(), to) })
			},
			Broken: func(jugs) string { return "" },
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("jugs of %d and %d (-Run +RunCompact):\n%s", room[0], room[1], diff)
		}
	}
}

// TestAlike merges states that differ in name only.
func TestAlike(t *testing.T) {
	c := compact(jugs{room: [2]uint8{3, 3}}, 0, 100)
	all, err := RunCompact(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Key = func(j *jugs, buf []byte) []byte {
		return append(buf, min(j.has[0], j.has[1]), max(j.has[0], j.has[1]))
	}
	merged, err := RunCompact(c)
	if err != nil || all.States != 4 || merged.States != 3 {
		t.Errorf("%d states, %d when alike are merged (%v); want 4 and 3", all.States, merged.States, err)
	}
}

func TestLimitIsAnError(t *testing.T) {
	if r, err := RunCompact(compact(jugs{room: [2]uint8{3, 5}}, 0, 5)); err == nil || !strings.Contains(err.Error(), "5") {
		t.Errorf("got %+v and %v, want an error that names the limit", r, err)
	}
	if _, err := RunCompact(compact(jugs{}, 0, 0)); err == nil {
		t.Error("no limit was accepted")
	}
}

func TestFingerprintsDistinguishKeys(t *testing.T) {
	seen := map[fingerprint][]byte{}
	for n := range 1 << 16 {
		short := []byte{byte(n), byte(n >> 8)}
		for _, key := range [][]byte{short, append(short, 0), append(make([]byte, 30), short...)} {
			fp := fingerprintOf(key)
			if other, known := seen[fp]; known {
				t.Fatalf("%v and %v have the same fingerprint", key, other)
			}
			seen[fp] = key
		}
	}
}

// TestEnd finds the state in which nothing can happen any more, and the way to it.
func TestEnd(t *testing.T) {
	c := compact(jugs{room: [2]uint8{3, 5}}, 0, 100)
	all := c.Next
	c.Next = func(j *jugs, step func(Step, jugs)) {
		if j.has != [2]uint8{3, 2} {
			all(j, step)
		}
	}
	c.Ended = func(j *jugs) string { return fmt.Sprintf("nothing follows %v", j.has) }
	got, err := RunCompact(c)
	want := []string{"fill 1", "pour 1 into 0"}
	diff := cmp.Diff(want, got.History)
	if err != nil || diff != "" || got.Broken != "nothing follows [3 2]" || got.Depth != 2 {
		t.Errorf("%q at depth %d, %v (-want +got):\n%s", got.Broken, got.Depth, err, diff)
	}
}
