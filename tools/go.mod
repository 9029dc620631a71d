module github.com/distlock/distlock/tools

go 1.26
