// Package step defines what goes into one step of a shard's decision core and what comes out of it, as plain data:
// Input, Output, the questions to extenders and plugins, and the reports on attempts and plans. Effects collects an
// Output while the step runs.
package step
