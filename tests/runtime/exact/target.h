#pragma once

int Work(int milliseconds, int status);
int Calls(int count);
int Check(int turns);
int Branches(int count);
int Exclusives(int count);
