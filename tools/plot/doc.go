// Command plot draws line plots as SVG, from a JSON file that describes them:
//
//	go run . --in plots.json --out docs/plots
//
// It is a module of its own because nothing else needs a plotting library. What a plot is, is agreed
// with test/perf/outcome: the fields of Plot here are those there. The same input gives the same bytes.
//
// Start reading at draw.
package main
