// Package declare declares the metrics of package telemetry and of the packages below it, and keeps the list of them.
//
// Start reading at Family.
package declare
