module examples

go 1.21

require tarry.io/tarry/clients/go v0.0.0

replace tarry.io/tarry/clients/go => ../../clients/go
