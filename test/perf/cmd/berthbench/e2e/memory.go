package e2e

import (
	"context"
	"fmt"

	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/perf/resident"
)

const megabyte = 1 << 20

// held is the memory of a contender.
type held struct {
	resident.Memory
	// Heap is the live objects of Berth in one process, by part of the program; nil unless it was asked for.
	Heap []resident.Part `json:"heap,omitempty"`
}

// held reads the memory of the contender at the end of a run, when nothing is measured any more: both readings, and the
// collection of garbage in between, take processor time. Raw contenders run in this program, and nothing is read of
// them. In mode failover one of the processes is dead.
func (g *ground) held(ctx context.Context, mode string, parts bool) (*held, error) {
	if len(g.PIDs) == 0 || mode == failover {
		return nil, nil
	}
	var h held
	var err error
	if h.Memory, err = resident.Of(g.PIDs...); err != nil {
		return nil, err
	}
	if parts && g.Address != "" {
		h.Heap, err = resident.Heap(ctx, g.Address)
	}
	return &h, err
}

// medianHeld is the median of each number over the runs; nil if none of them has any.
func medianHeld(runs []result) *held {
	var with []result
	for _, run := range runs {
		if run.Memory != nil {
			with = append(with, run)
		}
	}
	if len(with) == 0 {
		return nil
	}
	of := func(value func(h *held) int64) int64 {
		return int64(median(with, func(r result) float64 { return float64(value(r.Memory)) }))
	}
	all := held{Memory: resident.Memory{
		Most:      of(func(h *held) int64 { return h.Most }),
		Now:       of(func(h *held) int64 { return h.Now }),
		Program:   of(func(h *held) int64 { return h.Program }),
		Files:     of(func(h *held) int64 { return h.Files }),
		Anonymous: of(func(h *held) int64 { return h.Anonymous }),
	}}
	for i, part := range with[0].Memory.Heap {
		part.Bytes = of(func(h *held) int64 { return h.Heap[i].Bytes })
		all.Heap = append(all.Heap, part)
	}
	return &all
}

// memoryTables are the contenders' memory, and the live heap of each that reported it.
func memoryTables(mode string, rows []result) []outcome.Table {
	t := outcome.Table{Title: fmt.Sprintf("Resident memory at the end of mode %s, MB", mode),
		Head: []string{"contender", "the most it was", "at the end", "of it mapped from the program's file",
			"from other files", "anonymous"}}
	number := func(bytes int64) string { return outcome.Number(megabytes(bytes)) }
	var heaps []outcome.Table
	for _, row := range rows {
		if m := row.Memory; m != nil {
			t.Rows = append(t.Rows, []string{row.Contender, number(m.Most), number(m.Now), number(m.Program), number(m.Files),
				number(m.Anonymous)})
			if len(m.Heap) > 0 {
				heaps = append(heaps, heapTable(row))
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return append([]outcome.Table{t}, heaps...)
}

// notLive is what anonymous memory has beside live objects.
const notLive = "garbage, room between objects, stacks, the runtime"

// heapTable divides the anonymous memory of a contender.
func heapTable(row result) outcome.Table {
	t := outcome.Table{Title: "Anonymous memory of " + row.Contender + ", MB", Head: []string{"part", "MB"},
		Notes: []string{"Live objects after a collection, from samples, by the part that allocated them. The last line is " +
			"the difference from the anonymous memory before the collection."}}
	left := row.Memory.Anonymous
	for _, part := range row.Memory.Heap {
		t.Rows = append(t.Rows, []string{part.Name, outcome.Number(megabytes(part.Bytes))})
		left -= part.Bytes
	}
	t.Rows = append(t.Rows, []string{notLive, outcome.Number(megabytes(left))})
	return t
}

func megabytes(bytes int64) float64 { return float64(bytes) / megabyte }
