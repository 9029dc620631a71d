package sqlite_test

import "github.com/distlock/distlock/internal/testenv"

var roles = testenv.Roles{}
