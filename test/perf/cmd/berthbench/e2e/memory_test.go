package e2e

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/perf/resident"
)

func TestMemoryIsReportedBesideKubeSchedulers(t *testing.T) {
	run := func(contender string, most int64, heap ...resident.Part) result {
		return result{Contender: contender, Mode: drain, Pods: 1, Memory: &held{Heap: heap, Memory: resident.Memory{
			Most: most * megabyte, Now: 200 * megabyte, Program: 60 * megabyte, Files: 10 * megabyte,
			Anonymous: 130 * megabyte}}}
	}
	state := func(mb int64) []resident.Part {
		return []resident.Part{{Name: "state", Bytes: mb * megabyte}, {Name: resident.Rest, Bytes: 10 * megabyte}}
	}
	r := report{Results: []result{
		run("kube-scheduler", 150), run("berth", 400, state(40)...), run("berth", 300, state(20)...),
		run("berth", 320, state(30)...), {Contender: "raw-8", Mode: drain, Pods: 1},
	}}
	o := r.outcome(3)
	for name, want := range map[string]float64{
		"drain.berth.mostResidentMB": 320, "drain.kube-scheduler.mostResidentMB": 150, "drain.raw-8.mostResidentMB": 0,
	} {
		if got := o.Values[name]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	var b strings.Builder
	for _, table := range o.Tables {
		table.Markdown(&b)
	}
	for _, want := range []string{
		"| kube-scheduler | 150 | 200 | 60 | 10 | 130 |", "| berth | 320 | 200 | 60 | 10 | 130 |",
		"| state | 30 |", "| rest | 10 |", "| garbage, room between objects, stacks, the runtime | 90 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no row %q in\n%s", want, b.String())
		}
	}
	if n := len(memoryTables(drain, r.rows(drain))); n != 2 {
		t.Errorf("%d tables, want one of all contenders and one of Berth's heap", n)
	}
	if alone := memoryTables(drain, []result{{Contender: "raw-8"}}); len(alone) > 0 {
		t.Errorf("memory of a client that runs in this program is reported: %v", alone)
	}
}
