// Package render prints the reports of the operators' commands: as JSON or YAML, or as text for people. It computes
// nothing that a report does not contain, contacts nothing, and writes to the writer that it gets; commands decide
// what to print, and their exit codes follow from the reports, not from the text.
//
// Each function takes the value of --output as its format: "json", "yaml", or anything else for text. JSON and YAML
// have the fields of the report's Go type, and are stable; the text may change with every release.
//
// Reports that are their own pages print themselves (explain.Story.Text, explain.Overview.Text).
//
// Start reading at Structured.
package render
